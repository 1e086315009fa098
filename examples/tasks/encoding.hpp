// SPDX-License-Identifier: Apache-2.0
//
// The position encodings that are compared, and the one place where a name becomes a heed pack.
// What is learned per encoding (reference: the papers' own settings):
//
//   absolute          E [longest, width], added to the model's input
//   relative(-capped) a vector per distance [vectors, head width], one table for all heads, layers
//   cope              e [vectors, head width], one table per layer for its heads; starts at 0
//   nope              nothing; one scale per layer and head, 1 and frozen until it is fitted
//   sinusoid, rope, alibi   nothing

#pragma once

#include <heed/heed.hpp>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "parameters.hpp"

namespace tasks {

enum class Pe { nope, absolute, sinusoid, relative, relative_capped, rope, alibi, cope };

inline constexpr std::array<std::pair<std::string_view, Pe>, 8> kEncodings{
    {{"nope", Pe::nope},
     {"absolute", Pe::absolute},
     {"sinusoid", Pe::sinusoid},
     {"relative", Pe::relative},
     {"relative-capped", Pe::relative_capped},
     {"rope", Pe::rope},
     {"alibi", Pe::alibi},
     {"cope", Pe::cope}}};

inline std::string name_of(Pe pe) {
  for (const auto& [name, value] : kEncodings) {
    if (value == pe) return std::string(name);
  }
  return "?";
}
inline Pe encoding_of(std::string_view wanted) {
  std::string all;
  for (const auto& [name, value] : kEncodings) {
    if (name == wanted) return value;
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  throw std::invalid_argument("no encoding \"" + std::string(wanted) + "\"; there are " + all);
}

// What the packs refer to; owned by the model's weights.
struct Tables {
  heed::TableView vectors;      // relative, cope
  heed::List<float> scales;     // nope: [heads]
  heed::CopeForm form = heed::CopeForm::a;
};

// Calls f with the policies of an encoding. The learned one, if any, stands second.
template <class F>
void with_policies(Pe pe, const Tables& t, F&& f) {
  switch (pe) {
    case Pe::absolute:   // these two are in the model's input
    case Pe::sinusoid:
      return f(heed::pack(heed::causal));
    case Pe::nope:
      return f(heed::pack(heed::causal, heed::HeadScale{t.scales}));
    case Pe::relative:
    case Pe::relative_capped:
      return f(heed::pack(heed::causal, heed::Relative{.table = t.vectors,
                                                       .capped = pe == Pe::relative_capped}));
    case Pe::rope:
      return f(heed::pack(heed::causal, heed::Rope{.pairing = heed::Pairing::halves}));
    case Pe::alibi:
      return f(heed::pack(heed::causal, heed::Alibi{}));
    case Pe::cope:
      return f(heed::pack(heed::causal, heed::Cope{t.vectors, {.form = t.form}}));
  }
}

}  // namespace tasks

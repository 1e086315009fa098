// SPDX-License-Identifier: Apache-2.0
//
// What a sweep measures: policies by budgets.

#pragma once

#include <string>
#include <vector>

#include "kv_cache.hpp"

namespace lm {

struct SweepRow {
  std::string policy;                // as it was asked for
  std::vector<CacheChoice> choices;  // one per budget, or for "full" one in all
};

// policy: a cache as CacheChoice::parse reads it, without its budget. A text is read token by
// token, as if it were being written. Throws Error for anything else.
inline SweepRow sweep_row(const std::string& policy, const std::vector<Index>& budgets) {
  SweepRow row{policy, {}};
  try {
    if (policy == "full") {
      row.choices.push_back(CacheChoice::parse(policy));
    } else if (policy.find(':') == std::string::npos) {
      for (const Index budget : budgets) {
        row.choices.push_back(CacheChoice::parse(policy + ":" + std::to_string(budget)));
      }
    }
  } catch (const Error&) {
    row.choices.clear();
  }
  if (row.choices.empty()) {
    throw Error("--policies names \"" + policy + "\"; it names full, tova, h2o, window or, with "
                "the first 4 tokens, window+4, without a budget, and -layer or -head may follow");
  }
  for (CacheChoice& choice : row.choices) choice.prompt = heed::Prefill::stepwise;
  return row;
}

}  // namespace lm

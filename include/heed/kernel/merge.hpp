// SPDX-License-Identifier: Apache-2.0
//
// Merging ranges of keys that were attended separately: by another thread, another machine, or at
// another time. With lse = ln sum_j e^(x_j) of each part,
//
//   LSE = ln sum_i e^(lse_i),  w_i = e^(lse_i - LSE),  out = sum_i w_i out_i,
//   H = sum_i w_i (H_i - ln w_i)
//
// A part that saw nothing (lse = -inf) changes nothing, bit for bit; if all are empty the result
// is 0 with lse = -inf. Each part names its own Positions; a sink stands in exactly one part; a
// walking score goes from the newest part to the oldest through Into{.carry} and Resume.

#pragma once

#include "into.hpp"

namespace heed {
inline namespace HEED_DATA_ABI {

struct Part {
  View<const float> out{};   // [batch, heads, q_len, v_dim]
  RowView lse{};            // [batch, heads, q_len]
  RowView entropy{};         // needed only when the merged entropy is wanted
};

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {
namespace detail {

// One row. Weights are taken in double: the parts may be many and far apart.
inline void merge_row(const Into& into, const Part* parts, Index count, Index b, Index h, Index t) {
  double top = -INFINITY, sum = 0, entropy = 0;
  Index seen = 0, only = 0;
  for (Index i = 0; i < count; ++i) {
    const double lse = parts[i].lse(b, h, t);
    if (lse == -INFINITY) continue;
    ++seen;
    only = i;
    top = lse > top || lse != lse ? lse : top;
  }
  const Index width = into.out.dim();
  float* const out = width == 0 ? nullptr : into.out.row(b, h, t);
  if (seen <= 1) {
    const Part& part = parts[only];
    for (Index d = 0; d < width; ++d) out[d] = seen == 0 ? 0.0f : part.out.row(b, h, t)[d];
    if (into.lse.data != nullptr) into.lse(b, h, t) = seen == 0 ? -INFINITY : part.lse(b, h, t);
    if (into.entropy.data != nullptr) {
      into.entropy(b, h, t) = seen == 0 ? 0.0f : part.entropy(b, h, t);
    }
    return;
  }
  for (Index i = 0; i < count; ++i) sum += std::exp(double(parts[i].lse(b, h, t)) - top);
  const double lse = top + std::log(sum);
  for (Index d = 0; d < width; ++d) {
    double value = 0;
    for (Index i = 0; i < count; ++i) {
      const double part = parts[i].lse(b, h, t);
      if (part == -INFINITY) continue;
      value += std::exp(part - lse) * double(parts[i].out.row(b, h, t)[d]);
    }
    out[d] = float(value);
  }
  if (into.lse.data != nullptr) into.lse(b, h, t) = float(lse);
  if (into.entropy.data == nullptr) return;
  for (Index i = 0; i < count; ++i) {
    const double part = parts[i].lse(b, h, t);
    if (part == -INFINITY) continue;
    entropy += std::exp(part - lse) * (double(parts[i].entropy(b, h, t)) - (part - lse));
  }
  into.entropy(b, h, t) = float(entropy);
}

}  // namespace detail

// Writes into.out, and into.lse and into.entropy where wanted. Throws std::invalid_argument for
// shapes that differ, a missing lse or entropy, or outputs that overlap a part.
inline void merge(const Into& into, List<Part> parts) {
  if (parts.size == 0) contract::refuse("merge", "no parts", "at least one");
  const View<const float>& first = parts[0].out;
  const Shape shape{"merge", first.batch(), first.heads(), 0, first.time(), 0, 0, first.dim()};
  detail::check_into(into, shape, 0);
  if (into.weights.to.data != nullptr || into.carry.data != nullptr) {
    contract::refuse("merge", "Into has weights or carry", "out, lse and entropy only");
  }
  for (Index i = 0; i < parts.size; ++i) {
    const Part& part = parts[i];
    const std::string name = "part " + contract::text(i);
    contract::same_shape("merge", (name + "'s out").c_str(), part.out.extent, first.extent);
    const auto check_rows = [&](const char* what, const RowView& rows) {
      contract::same_shape("merge", (name + what).c_str(),
                           {rows.extent[0], rows.extent[1], rows.extent[2], 1},
                           {shape.batch, shape.heads, shape.q_len, 1});
    };
    check_rows("'s lse", part.lse);
    if (into.entropy.data != nullptr) check_rows("'s entropy", part.entropy);
    detail::check_apart("merge", into,
                        {{"a part's out", detail::Bytes::of(part.out)},
                         {"a part's lse", detail::Bytes::of(part.lse)},
                         {"a part's entropy", detail::Bytes::of(part.entropy)}});
  }
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index h = 0; h < shape.heads; ++h) {
      for (Index t = 0; t < shape.q_len; ++t) {
        detail::merge_row(into, parts.data, parts.size, b, h, t);
      }
    }
  }
}
inline void merge(const Into& into, std::initializer_list<Part> parts) {
  merge(into, List<Part>(parts.begin(), Index(parts.size())));
}

}  // namespace HEED_ABI
}  // namespace heed

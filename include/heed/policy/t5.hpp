// SPDX-License-Identifier: Apache-2.0
//
// T5's relative bias: a learned number per head and bucket of distances (Raffel et al.,
// arXiv 1910.10683), causal form.
//
//   logit(i, j) += scale table[head, bucket(max(i - j, 0))]
//   bucket(n)    = n                                                  n < B/2,  B buckets
//                  B/2 + floor(ln(n / (B/2)) / ln(D / (B/2)) B/2)     otherwise, at most B - 1
//
// D = max_distance. T5 itself has no 1/sqrt(d): use Scale{1}, or scale = sqrt(d).

#pragma once

#include <cmath>

#include "../tile/table_product.hpp"
#include "band.hpp"

namespace heed::inline HEED_ABI {

// distance >= 0, buckets >= 1, max_distance > buckets / 2.
inline Index t5_bucket(Index distance, Index buckets, Index max_distance) {
  const Index exact = buckets / 2;
  if (distance < exact) return distance;
  if (exact == 0 || distance >= max_distance) return buckets - 1;
  const double unit = static_cast<double>(exact);
  // A quotient that is an integer may come out a rounding below it.
  const double share = std::log2(static_cast<double>(distance) / unit) /
                           std::log2(static_cast<double>(max_distance) / unit) + 1e-12;
  return std::min(exact + static_cast<Index>(share * static_cast<double>(buckets - exact)),
                  buckets - 1);
}

struct T5Bias {
  TableView table;            // matrix [heads, buckets]
  Index max_distance = 128;   // distances from here on share the last bucket
  float scale = 1;            // of the bias

  struct State {
    detail::Band band;
  };

  void check(const Shape& shape) const {
    using contract::text;
    if (table.tables != 1 || table.rows != shape.heads || table.dim < 1) {
      contract::refuse(shape.function,
                       "T5Bias has " + text(table.tables) + " table of [" + text(table.rows) +
                           ", " + text(table.dim) + "]",
                       "1 of [q's heads " + text(shape.heads) + ", at least 1 bucket]");
    }
    if (max_distance <= table.dim / 2) {
      contract::refuse(shape.function, "T5Bias.max_distance is " + text(max_distance),
                       "more than half of the " + text(table.dim) + " buckets");
    }
    if (!std::isfinite(scale)) {
      contract::refuse(shape.function, "T5Bias.scale is " + text(double{scale}),
                       "a finite number");
    }
  }
  State begin(const Rows&) const { return {}; }
  void forward(const Tile& tile, State& state) const {
    const Rows& rows = tile.rows;
    state.band.add(tile, max_distance, [&](Index first, Index count, float* out) {
      std::fill(out, out + count * kRows, 0.0f);
      for (Index n = 0; n < count; ++n) {
        const Index bucket = t5_bucket(first + n, table.dim, max_distance);
        const float common = scale * table.row(0, rows.head[0])[bucket];
        std::fill_n(out + n * kRows, rows.count, common);
        for (Index lane = 0; !rows.one_head && lane < rows.count; ++lane) {
          out[n * kRows + lane] = scale * table.row(0, rows.head[lane])[bucket];
        }
      }
    });
  }

  // Of .table: table() is [heads, buckets]. Logits pass unchanged.
  TableGradient zero(const Shape&) const { return TableGradient(table); }
  void backward(const Tile& tile, Adjoint& adjoint, State& state, TableGradient&) const {
    state.band.collect(tile, max_distance, adjoint.logits.data);
  }
  void end(const Rows& rows, State& state, RowsAdjoint&, TableGradient& gradient) const {
    const Index count = state.band.columns();
    const float* const collected = state.band.collected();
    for (Index n = 0, end = 0; n < count; n = end) {   // a bucket's distances lie side by side
      const Index bucket = t5_bucket(n, table.dim, max_distance);
      for (end = n + 1; end < count && t5_bucket(end, table.dim, max_distance) == bucket;) ++end;
      for (Index lane = 0; lane < rows.count; ++lane) {
        double sum = 0;
        for (Index i = n; i < end; ++i) sum += double{collected[i * kRows + lane]};
        gradient.row(0, rows.head[lane])[bucket] += static_cast<float>(double{scale} * sum);
      }
    }
  }
};

}  // namespace heed::inline HEED_ABI

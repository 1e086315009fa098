// SPDX-License-Identifier: Apache-2.0
//
// Relative positions as vectors on the keys' side (Shaw et al., arXiv 1803.02155, without the
// values' part).
//
//   logit(i, j) += q_i . table[max(i - j, 0)] / sqrt(d)
//
// table: [N, d], or [heads, N, d]. Distances of N and more add nothing; with .capped they share the
// last vector. The product with the table does not see HeadScale, and takes one dot product per row
// and distance, as many as q.k takes.

#pragma once

#include "../tile/table_product.hpp"
#include "band.hpp"

namespace heed::inline HEED_ABI {

struct Relative {
  TableView table;
  bool capped = false;

  struct State {
    detail::Band band;
    alignas(64) float unscale[kRows] = {};   // takes HeadScale out of a product with packed
  };

  void check(const Shape& shape) const {
    using contract::text;
    if (table.tables != 1 && table.tables != shape.heads) {
      contract::refuse(shape.function, "Relative has " + text(table.tables) + " tables",
                       "1, or one per query head, " + text(shape.heads));
    }
    if (table.rows < 1 || table.dim != shape.dim) {
      contract::refuse(shape.function,
                       "Relative's table is [" + text(table.rows) + ", " + text(table.dim) + "]",
                       "[at least 1, q's dim " + text(shape.dim) + "]");
    }
  }
  State begin(const Rows& rows) const {
    State state;
    for (Index lane = 0; lane < rows.count; ++lane) {
      state.unscale[lane] = rows.unfold[lane] * rows.base_scale;
    }
    return state;
  }
  void forward(const Tile& tile, State& state) const {
    if (!capped && tile.rows.min_position - tile.keys.max_position() >= table.rows) return;
    state.band.add(tile, capped ? table.rows - 1 : table.rows,
                   [&](Index first, Index count, float* out) {
                     const Index known = std::min(count, table.rows - first);
                     TableView from = table;
                     from.data += first * table.row_stride;
                     product_with_table(from, tile.rows, out, known);
                     simd::forward().scale(out, known, state.unscale);
                     std::fill(out + known * kRows, out + count * kRows, 0.0f);
                   });
  }
};

}  // namespace heed::inline HEED_ABI

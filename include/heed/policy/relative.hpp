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
    if (beyond(tile)) return;
    state.band.add(tile, last(),
                   [&](Index first, Index count, float* out) {
                     const Index known = std::min(count, table.rows - first);
                     TableView from = table;
                     from.data += first * table.row_stride;
                     product_with_table(from, tile.rows, out, known);
                     simd::forward().scale(out, known, state.unscale);
                     std::fill(out + known * kRows, out + count * kRows, 0.0f);
                   });
  }

  // d table[n] = sum of q adjoint / sqrt(d) over the pairs at distance n; logits pass unchanged.
  TableGradient zero(const Shape&) const { return TableGradient(table); }
  void backward(const Tile& tile, Adjoint& adjoint, State& state, TableGradient&) const {
    if (!beyond(tile)) state.band.collect(tile, last(), adjoint.logits.data);
  }
  void end(const Rows& rows, State& state, RowsAdjoint& adjoint, TableGradient& gradient) const {
    const Index count = std::min(state.band.columns(), table.rows);
    if (count == 0) return;
    simd::forward().scale(state.band.collected(), count, state.unscale);
    Buffer<float> dq(kRows * rows.padded_dim);
    std::fill_n(dq.data(), dq.size(), 0.0f);
    table_adjoint(table, rows, state.band.collected(), count, dq.data(), gradient);
    double product = 0;   // of the logits added here with their adjoints: they grow with the scale
    for (Index i = 0; i < rows.count * rows.padded_dim; ++i) {
      product += double{dq[i]} * double{rows.scaled[i]};
      adjoint.dq[i] += dq[i];
    }
    adjoint.base_scale += product / double{rows.base_scale};
  }

 private:
  Index last() const { return capped ? table.rows - 1 : table.rows; }
  // Nothing is added to pairs so far apart.
  bool beyond(const Tile& tile) const {
    return !capped && tile.rows.min_position - tile.keys.max_position() >= table.rows;
  }
};

}  // namespace heed::inline HEED_ABI

// SPDX-License-Identifier: Apache-2.0
//
// CoPE, contextual position encoding (Golovneva et al., arXiv 2405.18719): gates decide which keys
// count, and a position is the running sum of gates from the query backwards.
//
//   g_j = sigmoid(x_j)                     x: the logit as CoPE receives it; 0 where hidden
//   p_j = min(sum_{k >= j} g_k, N - 1)     newest key first, the key's own gate included
//   b_j = (1 - w) q.e[n] + w q.e[n + 1]    n = floor(p_j), w = p_j - n
//   x_j + b_j  (form A, the paper's listing)    x_j + scale * b_j  (form B, the released code)
//
// q is the query after the encodings, without scale and factors: HeadScale before CoPE sharpens
// content and gates, never the table. Once a row's sum has reached N - 1, every older key only
// gets q.e[N - 1]: from the next tile on the row is settled and costs what plain attention costs.

#pragma once

#include "../tile/table_product.hpp"
#include "pack.hpp"

namespace heed {
inline namespace HEED_DATA_ABI {

// a: x + q.e; b: x + scale * q.e, with scale = 1/sqrt(dim) unless Scale says otherwise.
enum class CopeForm { a, b };

struct CopeOptions {
  CopeForm form = CopeForm::a;
  bool own_token = true;   // false: a key's own gate does not count towards its own position
};

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {

class Cope {
 public:
  static constexpr Index kGateSums = 2;   // a carry is a sum and what rounding took from it

  struct State {
    alignas(64) float carry[kGateSums * kRows];
    alignas(64) float offset[kRows];
    alignas(64) float gate_factor[kRows];   // takes folded factors out of the gates' products
    Buffer<float> z;                        // [N + 2][kRows]: q.e, the last row three times
  };

  // table: [N, dim], shared by the heads, or [heads, N, dim]; zeros make a fresh layer equal NoPE.
  explicit Cope(TableView table, CopeOptions options = {}) : table_(table), options_(options) {}

  // Gates from q.k' with keys of their own: [batch, kv_heads, kv_len, dim]. They are encoded as
  // the keys are; the gate is sigmoid(scale * q.k'), untouched by factors and scores.
  Cope gate_keys(View<const float> keys) const {
    Cope result = *this;
    result.gates_ = {Source::gate, keys};
    return result;
  }
  // Gates from q.v, the values as they are; needs value width == dim.
  Cope value_gates() const {
    Cope result = *this;
    result.gates_ = {Source::value, {}};
    return result;
  }

  GateStream gate_stream() const { return gates_; }

  void check(const Shape& s) const {
    if (table_.rows < 1 || table_.dim != s.dim) {
      contract::refuse(s.function, "Cope's table is [" + contract::text(table_.rows) + ", " +
                                       contract::text(table_.dim) + "]",
                       "[N, " + contract::text(s.dim) + "] with N >= 1");
    }
    if (table_.tables != 1 && table_.tables != s.heads) {
      contract::refuse(s.function, "Cope has " + contract::text(table_.tables) + " tables",
                       "one, or one per query head (" + contract::text(s.heads) + ")");
    }
    if (gates_.source == Source::value && s.v_dim != s.dim) {
      contract::refuse(s.function, "Cope's value gates with values of width " +
                                       contract::text(s.v_dim),
                       "the width of q, " + contract::text(s.dim));
    }
    if (gates_.source == Source::gate) {
      contract::same_shape(s.function, "Cope's gate_keys", gates_.keys.extent,
                           {s.batch, s.kv_heads, s.kv_len, s.dim});
    }
  }

  State begin(const Rows& rows) const {
    State state;
    state.z = Buffer<float>((table_.rows + 2) * kRows);
    for (Index lane = 0; lane < kRows; ++lane) {
      // Lanes without a query are settled from the start.
      state.carry[lane] = lane < rows.count ? 0.0f : INFINITY;
      state.carry[kRows + lane] = 0;
      state.offset[lane] = 0;
      state.gate_factor[lane] = 1.0f / rows.factor[lane];
    }
    fill(rows, state.z.data());
    return state;
  }

  void forward(const Tile& tile, State& state) const {
    const simd::ForwardTable& simd = simd::forward();
    const float last = float(table_.rows - 1);
    const float* const last_column = state.z.data() + (table_.rows - 1) * kRows;
    for (Index lane = 0; lane < kRows; ++lane) {
      state.offset[lane] = state.carry[lane] >= last ? last_column[lane] : 0.0f;
    }
    const float* gates = tile.logits.data;
    if (gates_.source != Source::key && !settled(state)) {
      const Index n = tile.keys.count;
      simd.product(tile.spare, tile.rows.packed, tile.rows.dim, tile.keys.rows(gates_.source), n,
                   tile.reach);
      simd.scale(tile.spare, n, state.gate_factor);
      if (tile.visible != nullptr) simd.hide(tile.spare, tile.visible, n);
      gates = tile.spare;
    }
    simd.gate_walk(tile.logits.data, gates, tile.keys.count,
                   {state.z.data(), last, options_.own_token, state.carry, state.carry + kRows},
                   tile.reach);
  }

 private:
  bool settled(const State& state) const {
    const float last = float(table_.rows - 1);
    return std::all_of(state.carry, state.carry + kRows, [=](float c) { return c >= last; });
  }

  // z[n][lane] = q.e[n] (times the scale in form B), by the same product as the logits.
  void fill(const Rows& rows, float* z) const {
    product_with_table(table_, rows, z, table_.rows);
    alignas(64) float factor[kRows];
    for (Index lane = 0; lane < kRows; ++lane) {
      factor[lane] = rows.unfold[lane] * (options_.form == CopeForm::b ? rows.base_scale : 1.0f);
    }
    simd::forward().scale(z, table_.rows, factor);
    for (Index copy = 0; copy < 2; ++copy) {
      std::copy_n(z + (table_.rows - 1) * kRows, kRows, z + (table_.rows + copy) * kRows);
    }
  }

  TableView table_;
  CopeOptions options_;
  GateStream gates_;
};

}  // namespace HEED_ABI
}  // namespace heed

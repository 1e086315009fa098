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
    alignas(64) float table_factor[kRows];  // from packed . e to z
    Buffer<float> z;                        // [N + 2][kRows]: q.e, the last row three times
    float last = 0;                         // N - 1, the largest position
    alignas(64) float running[kRows];       // backward: sum of d loss / d position, oldest first
    Buffer<float> dz;                       // backward: adjoint of z

    bool settled() const {
      return std::all_of(carry, carry + kRows, [this](float c) { return c >= last; });
    }
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
    state.last = float(table_.rows - 1);
    state.z = Buffer<float>((table_.rows + 2) * kRows);
    for (Index lane = 0; lane < kRows; ++lane) {
      // Lanes without a query are settled from the start.
      state.carry[lane] = lane < rows.count ? 0.0f : INFINITY;
      state.carry[kRows + lane] = 0;
      state.offset[lane] = state.running[lane] = 0;
      state.gate_factor[lane] = 1.0f / rows.factor[lane];
      state.table_factor[lane] =
          rows.unfold[lane] * (options_.form == CopeForm::b ? rows.base_scale : 1.0f);
    }
    float* const z = state.z.data();
    product_with_table(table_, rows, z, table_.rows);
    simd::forward().scale(z, table_.rows, state.table_factor);
    for (Index copy = 0; copy < 2; ++copy) {
      std::copy_n(z + (table_.rows - 1) * kRows, kRows, z + (table_.rows + copy) * kRows);
    }
    return state;
  }

  void forward(const Tile& tile, State& state) const {
    const float* const last_column = state.z.data() + (table_.rows - 1) * kRows;
    for (Index lane = 0; lane < kRows; ++lane) {
      state.offset[lane] = state.carry[lane] >= state.last ? last_column[lane] : 0.0f;
    }
    if (state.settled()) return;
    simd::forward().gate_walk(tile.logits.data, gate_logits(tile, state), tile.keys.count,
                              walk(state), tile.reach);
  }

  TableGradient zero(const Shape&) const { return TableGradient(table_); }

  // db = adjoint; dz[n] += db (1 - w), dz[n + 1] += db w; dp = db (z[n + 1] - z[n]);
  // dg_k = sum of dp over all keys at least as old; d gate logit = g (1 - g) dg.
  void backward(const Tile& tile, Adjoint& adjoint, State& state, TableGradient&) const {
    if (state.dz.size() == 0) {
      state.dz = Buffer<float>((table_.rows + 2) * kRows);
      std::fill_n(state.dz.data(), state.dz.size(), 0.0f);
    }
    const bool own_stream = gates_.source != Source::key;
    const float* const gates = state.settled() ? tile.logits.data : gate_logits(tile, state);
    float* const to = own_stream ? adjoint.gates : adjoint.logits.data;
    simd::backward().gate_walk_adjoint(adjoint.logits.data, to, gates, tile.keys.count,
                                       walk(state), {state.dz.data(), state.running}, tile.reach);
    if (!own_stream) return;
    simd::forward().scale(to, tile.keys.count, state.gate_factor);
    if (tile.visible != nullptr) simd::backward().erase(to, tile.visible, tile.keys.count);
  }
  void end(const Rows& rows, State& state, RowsAdjoint& adjoint, TableGradient& gradient) const {
    if (state.dz.size() == 0) return;
    float* const dz = state.dz.data();
    for (Index copy = 0; copy < 2; ++copy) {   // the padding stands for row N - 1
      simd::forward().shift(dz + (table_.rows - 1) * kRows, 1, dz + (table_.rows + copy) * kRows);
    }
    if (options_.form == CopeForm::b) {   // z grows with the scale
      for (Index i = 0; i < table_.rows * kRows; ++i) {
        if (dz[i] == 0) continue;   // a row that saw nothing, whatever stands in its query
        adjoint.base_scale += double{dz[i]} * double{state.z[i]} / double{rows.base_scale};
      }
    }
    simd::forward().scale(dz, table_.rows, state.table_factor);
    table_adjoint(table_, rows, dz, table_.rows, adjoint.dq, gradient);
  }

 private:
  simd::GateWalk walk(State& state) const {
    return {state.z.data(), state.last, options_.own_token, state.carry, state.carry + kRows};
  }
  // The logits whose sigmoids are the gates: the tile's own, or the product with a second stream.
  const float* gate_logits(const Tile& tile, const State& state) const {
    if (gates_.source == Source::key) return tile.logits.data;
    const simd::ForwardTable& simd = simd::forward();
    const Index n = tile.keys.count;
    simd.product(tile.spare, tile.rows.packed, tile.rows.dim, tile.keys.rows(gates_.source), n,
                 tile.reach);
    simd.scale(tile.spare, n, state.gate_factor);
    if (tile.visible != nullptr) simd.hide(tile.spare, tile.visible, n);
    return tile.spare;
  }

  TableView table_;
  CopeOptions options_;
  GateStream gates_;
};

}  // namespace HEED_ABI
}  // namespace heed

// SPDX-License-Identifier: Apache-2.0
//
// One block backward. With p = e^(x - lse), delta = dout . out and dp = dout v',
//
//   ds = p (dp - delta);   scores' adjoints in reverse;   dv += p' dout,  dk += ds' q,  dq += ds k
//
// Tiles are walked oldest first, since what a gate feels is a sum over all older keys. The carries
// of walking scores are found again by a walk newest first, until no row's carry changes any more.
// q here is the packed query (encoded, scaled); encodings are undone at the end.

#pragma once

#include "../tile/softmax.hpp"
#include "gradients.hpp"
#include "walk.hpp"

namespace heed::inline HEED_ABI::detail {

// What one job adds up: rows of [kv_len][padded width].
struct KeyGradients {
  float* k = nullptr;
  float* v = nullptr;
  float* gate = nullptr;   // of the gates' stream: gate keys of their own, or v itself
};

// The tensors that come from outside the pass.
struct Upstream {
  View<const float> out, dout;   // [batch, heads, q_len, v_dim]
  RowView lse;
};

template <class Reads, class Tape>
class BackwardBlock {
  using Policies = typename Reads::Policies;
  using States = typename Policies::States;
  using Parameters = typename Tape::Parameters;

 public:
  BackwardBlock(const Reads& operands, const Upstream& upstream)
      : operands_(operands),
        upstream_(upstream),
        walk_(operands),
        tape_(operands.pack),
        dim_(operands.padded_dim),
        width_(operands.padded_width),
        scratch_((3 * dim_ + width_ + operands.shape.v_dim + 2 * kKeys) * kRows) {
    float* next = scratch_.data();
    const auto take = [&next](Index columns) { return std::exchange(next, next + columns * kRows); };
    queries_ = take(dim_);
    dq_ = take(dim_);
    gate_dq_ = take(dim_);
    dout_ = take(width_);
    packed_dout_ = take(operands.shape.v_dim);
    adjoint_ = take(kKeys);
    gate_adjoint_ = take(kKeys);
    std::fill_n(ones_, kRows, 1.0f);
  }

  void run(Index batch, Index kv_head, Index block, const KeyGradients& to, View<float> dq,
           Parameters& parameters) {
    if (!walk_.open(batch, kv_head, block)) return;
    Rows& rows = walk_.rows();
    read_rows(rows);
    States states = walk_.begin();
    find_carries(states);
    for (Index number = 0; number < walk_.tiles(); ++number) {
      if (walk_.load(number, slot(number) == 0)) step(number, states, to, parameters);
    }
    finish(rows, states, dq, parameters);
  }

 private:
  static constexpr bool kWalking = Policies::kCarry > 0;

  // Rows that saw nothing are absent: their query, dout and delta are 0 and their lse +inf, so
  // every weight of theirs is 0 whatever stands in them.
  void read_rows(Rows& rows) {
    const Shape& shape = operands_.shape;
    rows.padded_dim = dim_;
    rows.scaled = queries_;
    std::fill_n(queries_, kRows * dim_, 0.0f);
    std::fill_n(dout_, kRows * width_, 0.0f);
    std::fill_n(dq_, kRows * dim_, 0.0f);
    std::fill_n(gate_dq_, kRows * dim_, 0.0f);
    const float* dout[kRows];
    for (Index lane = 0; lane < kRows; ++lane) {
      query_rows_[lane] = queries_ + lane * dim_;
      dout_rows_[lane] = dout[lane] = dout_ + lane * width_;
      lse_[lane] = INFINITY;
      delta_[lane] = 0;
      if (lane >= rows.count) continue;
      const Index h = rows.head[lane], row = rows.row[lane];
      const float lse = upstream_.lse(rows.batch, h, row);
      if (lse == -INFINITY) continue;
      lse_[lane] = lse;
      for (Index d = 0; d < shape.dim; ++d) queries_[lane * dim_ + d] = rows.packed[d * kRows + lane];
      if (shape.v_dim == 0) continue;
      std::copy_n(upstream_.dout.row(rows.batch, h, row), shape.v_dim, dout_ + lane * width_);
      const float* const out = upstream_.out.row(rows.batch, h, row);
      double delta = 0;
      for (Index d = 0; d < shape.v_dim; ++d) delta += double{dout_[lane * width_ + d]} * double{out[d]};
      delta_[lane] = float(delta);
    }
    const simd::ForwardTable& simd = simd::forward();
    simd.pack(packed_dout_, dout, ones_, kRows, shape.v_dim);
    rows_finite_ = simd.all_finite(query_rows_, kRows, dim_) &&
                   simd.all_finite(dout_rows_, kRows, width_);
  }

  // Where the first walk kept a tile, 0 if it did not: the newest ones it saw.
  Index slot(Index number) const { return number >= kept_from_ ? walk_.tiles() - number : 0; }

  // carries_[tile] = what forward found on entering it.
  void find_carries(States& states) {
    if constexpr (kWalking) {
      const Index tiles = kept_from_ = walk_.tiles();
      carries_.resize(std::size_t((tiles + 1) * Policies::kCarry * kRows));
      bool moving = true;
      for (Index number = tiles - 1; number >= 0; --number) {
        store_carries(states, number);
        if (!moving) continue;
        if (tiles - number <= Tape::kKept) kept_from_ = number;
        if (!walk_.load(number)) continue;
        tape_.forward(walk_.tile(), states, slot(number));
        moving = !all_settled(states);
      }
    }
  }
  float* carries(Index number) {
    return carries_.data() + number * Policies::kCarry * kRows;
  }
  void store_carries(States& states, Index number) {
    float* to = carries(number);
    Policies::each_carry(states, [&](const float* carry, Index n) {
      to = std::copy_n(carry, n * kRows, to);
    });
  }
  void load_carries(States& states, Index number) {
    if constexpr (kWalking) {
      const float* from = carries(number);
      Policies::each_carry(states, [&](float* carry, Index n) {
        std::copy_n(from, n * kRows, carry);
        from += n * kRows;
      });
    }
  }
  static bool all_settled(States& states) {
    const auto one = [](auto& state) {
      if constexpr (kHasCarry<std::remove_cvref_t<decltype(state)>>) {
        if constexpr (requires { state.settled(); }) return state.settled();
        return false;
      }
      return true;
    };
    return std::apply([&](auto&... state) { return (one(state) && ...); }, states);
  }

  void step(Index number, States& states, const KeyGradients& to, Parameters& parameters) {
    const simd::ForwardTable& simd = simd::forward();
    const simd::BackwardTable& back = simd::backward();
    const Tile tile = walk_.tile();
    const Index n = tile.keys.count;
    load_carries(states, number);
    const float* const offset = slot(number) == 0 ? tape_.forward(tile, states)
                                                  : tape_.recall(tile, slot(number));
    alignas(64) float shifted_lse[kRows];
    for (Index lane = 0; lane < kRows; ++lane) {
      shifted_lse[lane] = lse_[lane] - (offset == nullptr ? 0.0f : offset[lane]);
    }
    simd.product(adjoint_, packed_dout_, operands_.shape.v_dim, tile.keys.rows(Source::value), n,
                 tile.reach);
    back.softmax_adjoint(tile.logits.data, adjoint_, n, {shifted_lse, delta_}, tile.visible,
                         tile.reach);
    add_to_keys(to.v + tile.keys.first * width_, width_, tile.logits.data, dout_rows_, tile);

    Logits logits{adjoint_, n};
    Adjoint adjoint{logits, gate_adjoint_};
    const bool gates = to.gate != nullptr;
    if (gates) std::fill_n(gate_adjoint_, n * kRows, 0.0f);
    tape_.backward(tile, adjoint, states, parameters, [&] { load_carries(states, number); });

    add_to_keys(to.k + tile.keys.first * dim_, dim_, adjoint_, query_rows_, tile);
    add_to_rows(dq_, adjoint_, Source::key, tile);
    if (!gates) return;
    const Source source = operands_.has_gates() ? Source::gate : Source::value;
    add_to_keys(to.gate + tile.keys.first * dim_, dim_, gate_adjoint_, query_rows_, tile);
    add_to_rows(gate_dq_, gate_adjoint_, source, tile);
  }

  // out[j] += sum over rows of weights[j][row] * vectors[row]. A row that does not see the key
  // weighs 0, and 0 * NaN is NaN: where rows are not finite, hidden ones are left out.
  void add_to_keys(float* out, Index width, const float* weights, const float* const* vectors,
                   const Tile& tile) {
    const simd::BackwardTable& back = simd::backward();
    if (tile.visible == nullptr || rows_finite_) {
      return back.row_sum(out, width, weights, vectors, tile.keys.count, tile.rows.count, tile.reach);
    }
    for (Index j = 0; j < tile.keys.count; ++j) {
      const float* seen[kRows];
      for (Index lane = 0; lane < kRows; ++lane) {
        seen[lane] = tile.visible[j] >> lane & 1 ? vectors[lane] : operands_.zeros.data();
      }
      back.row_sum(out + j * width, width, weights + j * kRows, seen, 1, tile.rows.count,
                   simd::kReachAll);
    }
  }
  // out[row] += sum over keys of weights[j][row] * key j of a stream; hidden keys as above.
  void add_to_rows(float* out, const float* weights, Source source, const Tile& tile) {
    const simd::ForwardTable& simd = simd::forward();
    const float* const* keys = tile.keys.rows(source);
    const Index n = tile.keys.count;
    if (tile.visible == nullptr || simd.all_finite(keys, n, dim_)) {
      return simd.weighted_sum(out, dim_, weights, keys, n, ones_, tile.reach, 0, kRows);
    }
    for (Index lane = 0; lane < tile.rows.count; ++lane) {
      const float* seen[kKeys];
      for (Index j = 0; j < n; ++j) {
        seen[j] = tile.visible[j] >> lane & 1 ? keys[j] : operands_.zeros.data();
      }
      simd.weighted_sum(out, dim_, weights, seen, n, ones_, tile.reach, lane, lane + 1);
    }
  }

  double dot(Index lane, const float* d) const {
    double sum = 0;
    for (Index i = 0; i < dim_; ++i) sum += double{queries_[lane * dim_ + i]} * double{d[lane * dim_ + i]};
    return sum;
  }

  void finish(const Rows& rows, States& states, View<float> dq, Parameters& parameters) {
    const Shape& shape = operands_.shape;
    double content[kRows] = {};
    RowsAdjoint adjoint{dq_};
    for (Index lane = 0; lane < rows.count; ++lane) {
      content[lane] = dot(lane, dq_);
      adjoint.base_scale += (content[lane] + dot(lane, gate_dq_)) / double{rows.base_scale};
      const Query query = rows.query(lane);
      const float prior = operands_.pack.prior(query);
      if (prior != -INFINITY && lse_[lane] != INFINITY) {
        tape_.prior(query, -std::exp(double{prior} - double{lse_[lane]}) * double{delta_[lane]},
                    parameters);
      }
    }
    for (Index i = 0; i < kRows * dim_; ++i) dq_[i] += gate_dq_[i];
    tape_.end(rows, states, adjoint, content, parameters);
    tape_.base_scale(adjoint.base_scale, parameters);
    for (Index lane = 0; lane < rows.count; ++lane) {
      float* const d = dq_ + lane * dim_;
      const float fold = rows.base_scale * rows.factor[lane];
      for (Index i = 0; i < shape.dim; ++i) d[i] *= fold;
      if constexpr (Policies::kEncoded) {
        operands_.pack.encode_adjoint(Vector(d, shape.dim), rows.row[lane],
                                      operands_.query_tables(rows.batch));
      }
      std::copy_n(d, shape.dim, dq.row(rows.batch, rows.head[lane], rows.row[lane]));
    }
  }

  const Reads& operands_;
  const Upstream& upstream_;
  Walk<Reads> walk_;
  Tape tape_;
  const Index dim_, width_;   // padded
  Buffer<float> scratch_;
  float *queries_, *dq_, *gate_dq_, *dout_, *packed_dout_, *adjoint_, *gate_adjoint_;
  const float* query_rows_[kRows];
  const float* dout_rows_[kRows];
  alignas(64) float lse_[kRows], delta_[kRows], ones_[kRows];
  bool rows_finite_ = true;
  Index kept_from_ = std::numeric_limits<Index>::max();   // first tile that the first walk kept
  std::vector<float> carries_;
};

}  // namespace heed::inline HEED_ABI::detail

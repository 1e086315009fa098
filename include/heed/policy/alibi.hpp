// SPDX-License-Identifier: Apache-2.0
//
// ALiBi: a linear penalty on distance (Press et al., arXiv 2108.12409).
//
//   logit(i, j) -= slope[head] |i - j|        i, j: positions of query and key
//
// Exact in float while |i - j| <= 2^24.

#pragma once

#include <cmath>
#include <vector>

#include "concepts.hpp"

namespace heed::inline HEED_ABI {

// The paper's slope of one head: 2^(-8 (head + 1) / heads) where heads is a power of two. Otherwise
// the slopes of the power of two below come first, then the 1st, 3rd, 5th ... of the power above.
inline float alibi_slope(Index head, Index heads) {
  Index power = 1;
  while (power <= heads / 2) power *= 2;
  const double step = head < power ? static_cast<double>(head + 1)
                                   : static_cast<double>(head - power) + 0.5;
  return static_cast<float>(std::exp2(-8 * step / static_cast<double>(power)));
}

// [heads]
inline std::vector<float> alibi_slopes(Index heads) {
  if (heads < 0) {
    contract::refuse("alibi_slopes", "heads is " + contract::text(heads), "at least 0");
  }
  std::vector<float> slopes(static_cast<std::size_t>(heads));
  for (Index head = 0; head < heads; ++head) {
    slopes[static_cast<std::size_t>(head)] = alibi_slope(head, heads);
  }
  return slopes;
}

struct Alibi {
  List<float> slopes{};   // [heads], finite; empty: the paper's

  // Positions are told from the block's first one, so that floats hold them exactly.
  struct State {
    alignas(64) float slope[kRows] = {};
    alignas(64) float position[kRows] = {};
    alignas(64) float d_slope[kRows] = {};   // backward
    Index origin;
  };

  void check(const Shape& shape) const {
    using contract::text;
    if (slopes.size == 0) return;
    if (slopes.size != shape.heads) {
      contract::refuse(shape.function, "Alibi has " + text(slopes.size) + " slopes",
                       "one per query head, " + text(shape.heads) + ", or none for the paper's");
    }
    for (Index head = 0; head < shape.heads; ++head) {
      if (std::isfinite(slopes[head])) continue;
      contract::refuse(shape.function,
                       "Alibi has slope " + text(double{slopes[head]}) + " for head " + text(head),
                       "finite slopes");
    }
  }
  State begin(const Rows& rows) const {
    State state;
    state.origin = rows.min_position;
    for (Index lane = 0; lane < rows.count; ++lane) {
      const Index head = rows.head[lane];
      const bool known = lane > 0 && head == rows.head[lane - 1];
      state.slope[lane] = known ? state.slope[lane - 1] : slope(head, rows.heads);
      state.position[lane] = static_cast<float>(rows.position[lane] - state.origin);
    }
    return state;
  }
  void forward(const Tile& tile, const State& state) const {
    alignas(64) float position[kKeys];
    key_positions(tile, state, position);
    simd::forward().slope(tile.logits.data, tile.keys.count, state.slope, state.position, position,
                          tile.reach);
  }

  // d loss / d slope[head] = -sum of adjoint |i - j|; logits pass unchanged.
  NumbersGradient zero(const Shape& shape) const { return NumbersGradient(shape.heads); }
  void backward(const Tile& tile, Adjoint& adjoint, State& state, NumbersGradient&) const {
    alignas(64) float position[kKeys];
    key_positions(tile, state, position);
    simd::backward().slope_adjoint(state.d_slope, adjoint.logits.data, tile.keys.count,
                                   state.position, position);
  }
  void end(const Rows& rows, const State& state, RowsAdjoint&, NumbersGradient& gradient) const {
    for (Index lane = 0; lane < rows.count; ++lane) {
      gradient[rows.head[lane]] += double{state.d_slope[lane]};
    }
  }

 private:
  static void key_positions(const Tile& tile, const State& state, float* position) {
    for (Index i = 0; i < tile.keys.count; ++i) {
      position[i] = static_cast<float>(tile.keys.position[i] - state.origin);
    }
  }
  float slope(Index head, Index heads) const {
    return slopes.size == 0 ? alibi_slope(head, heads) : slopes[head];
  }
};

}  // namespace heed::inline HEED_ABI

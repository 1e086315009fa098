// SPDX-License-Identifier: Apache-2.0
//
// The running softmax of a block: max m, sum l and weighted values per row, over the tiles seen so
// far. At the end
//   out = (sum_j e^(x_j - m) v_j) / l,   lse = m + ln l,   H = ln l - T / l,   T = sum_j p_j (x_j - m)
// A row that saw nothing is 0, with lse = -inf and H = 0. A visible +inf or NaN logit makes the row
// NaN. m rises with the tiles; what was summed before is scaled by alpha = e^(m_old - m_new).

#pragma once

#include "visibility.hpp"

namespace heed::inline HEED_ABI {

struct BlockSoftmax {
  alignas(64) float max[kRows];
  alignas(64) float sum[kRows];
  alignas(64) float moment[kRows];
  alignas(64) float alpha[kRows];
  float* out = nullptr;   // [kRows][width]
  Index width = 0;        // value width, padded to simd::kPad
  bool with_moment = false;

  void reset(float* accumulator, Index padded_width, bool entropy) {
    out = accumulator;
    width = padded_width;
    with_moment = entropy;
    std::fill_n(max, kRows, -INFINITY);
    std::fill_n(sum, kRows, 0.0f);
    std::fill_n(moment, kRows, 0.0f);
    std::fill_n(out, kRows * width, 0.0f);
  }

  // One more outcome without a value: a sink. -inf is none.
  void start_from(Index lane, float logit) {
    if (logit == -INFINITY) return;
    max[lane] = logit;
    sum[lane] = 1.0f;
  }

  // Turns the tile's logits (+ offset per lane) into weights and adds the weighted values. On a
  // tile that is partly hidden, a non-finite value may stand at a hidden key: 0 * NaN is NaN, so
  // such keys are replaced by a row of zeros for the rows that do not see them.
  void absorb(const Tile& tile, const float* offset, const float* zeros) {
    const simd::ForwardTable& simd = simd::forward();
    const Index n = tile.keys.count;
    float* const weights = tile.logits.data;
    simd.absorb(weights, n, {max, sum, with_moment ? moment : nullptr, offset}, alpha, tile.reach);
    const float* const* values = tile.keys.rows(Source::value);
    if (tile.visible == nullptr || simd.all_finite(values, n, width)) {
      const Index lanes = (tile.rows.count + simd::kGroup - 1) / simd::kGroup * simd::kGroup;
      simd.weighted_sum(out, width, weights, values, n, alpha, tile.reach, 0, lanes);
      return;
    }
    for (Index lane = 0; lane < tile.rows.count; ++lane) {
      const float* seen[kKeys];
      for (Index j = 0; j < n; ++j) seen[j] = tile.visible[j] >> lane & 1 ? values[j] : zeros;
      simd.weighted_sum(out, width, weights, seen, n, alpha, tile.reach, lane, lane + 1);
    }
  }

  float lse(Index lane) const {
    return sum[lane] == 0 ? -INFINITY : float(double(max[lane]) + std::log(double(sum[lane])));
  }
  float entropy(Index lane) const {
    if (sum[lane] == 0) return 0;
    constexpr double kLn2 = 0.693147180559945309417;   // moment counts in powers of two
    const double l = sum[lane];
    return float(std::log(l) - kLn2 * double(moment[lane]) / l);
  }
  void write(Index lane, float* to, Index count) const {
    const float inverse = sum[lane] == 0 ? 0.0f : 1.0f / sum[lane];
    const float* const from = out + lane * width;
    for (Index d = 0; d < count; ++d) to[d] = from[d] * inverse;
  }
};

}  // namespace heed::inline HEED_ABI

// SPDX-License-Identifier: Apache-2.0
//
// The primitives of the backward pass, beside those of table.hpp: tiles and lanes as there. An
// adjoint tile holds d loss / d logit of the pair.

#pragma once

#include "table.hpp"

namespace heed::inline HEED_ABI::simd {

struct SoftmaxAdjoint {
  const float* shifted_lse;   // lse - offset per lane; +inf for a row that saw nothing
  const float* delta;         // dout . out per lane
};

struct GateAdjoint {
  float* dz;        // [rows + 2][kRows], adjoint of GateWalk::z
  float* running;   // per lane: sum over all older keys of d loss / d position
};

struct BackwardTable {
  // tile: logits -> weights p = e^(x - shifted_lse); adjoint: d loss / d p -> p (dp - delta).
  // Both are 0 for hidden pairs; visible is nullptr when there are none.
  void (*softmax_adjoint)(float* tile, float* adjoint, Index n, const SoftmaxAdjoint& s,
                          const LaneBits* visible, const Reach& reach);
  // out[j][0, width) += sum of tile[j][lane] * rows[lane] over lanes [0, lanes) within reach;
  // width a multiple of kPad.
  void (*row_sum)(float* out, Index width, const float* tile, const float* const* rows, Index n,
                  Index lanes, const Reach& reach);
  // tile[j][lane] = 0 where bit `lane` of visible[j] is 0.
  void (*erase)(float* tile, const LaneBits* visible, Index n);
  // sum[lane] += sum_j tile[j][lane]
  void (*column_sum)(float* sum, const float* tile, Index n);
  // Of scale: d_factor[lane] += sum_j adjoint * tile; adjoint *= factor.
  void (*scale_adjoint)(float* adjoint, const float* tile, Index n, const float* factor,
                        float* d_factor);
  // Of slope: d_slope[lane] -= sum_j adjoint * |lane_position - key_position[j]|.
  void (*slope_adjoint)(float* d_slope, const float* adjoint, Index n, const float* lane_position,
                        const float* key_position);
  // Of band: d_band[row * kRows + lane] += adjoint[j][lane], rows as there.
  void (*band_adjoint)(float* d_band, const float* adjoint, Index n, Index rows,
                       const std::int32_t* start, const std::int32_t* key_offset);
  // Of soft_cap: adjoint *= 1 - tanh^2(tile / cap).
  void (*soft_cap_adjoint)(float* adjoint, const float* tile, Index n, float cap);
  // Of gate_walk, with the carry as forward found it. Adds to dz, to gate_adjoint (the adjoint of
  // `gates`, which may be `adjoint` itself) and to running; tiles come oldest first.
  void (*gate_walk_adjoint)(float* adjoint, float* gate_adjoint, const float* gates, Index n,
                            const GateWalk& walk, const GateAdjoint& out, const Reach& reach);
};

}  // namespace heed::inline HEED_ABI::simd

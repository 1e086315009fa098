// SPDX-License-Identifier: Apache-2.0
//
// What a primitive is: a microsecond of work on one tile, compiled once per instruction set and
// called through a table. Tiles are transposed: a column holds one key, a lane one query row, so
// element (key j, lane i) stands at [j * kRows + i]. Rows of keys and values come as pointers, so
// strided, broadcast and scattered rows all look alike.
//
// All arithmetic is lane-local: a lane's bits never depend on its neighbours. A test over lanes
// may only skip work whose result is known bit for bit.

#pragma once

#include "../core/types.hpp"

namespace heed::inline HEED_ABI::simd {

inline constexpr Index kGroup = 16;                  // lanes, and keys, that are skipped together
inline constexpr Index kGroups = kRows / kGroup;
inline constexpr Index kChunks = kKeys / kGroup;
inline constexpr Index kPad = 16;                    // value widths are padded to multiples of this

// For each chunk of 16 keys the groups of 16 lanes [first, last) that see any of them. What lies
// outside is hidden: product leaves it unwritten, hide makes it -inf, absorb 0.
struct Reach {
  std::uint8_t first[kChunks];
  std::uint8_t last[kChunks];
};
inline constexpr Reach kReachAll{{0, 0, 0, 0}, {kGroups, kGroups, kGroups, kGroups}};

// One block's state of CoPE, lanes are rows. `z` holds rows + 2 columns: the products of each
// query with the position vectors, the last one three times.
struct GateWalk {
  const float* z;
  float last;       // rows - 1, the largest position
  bool own_token;   // the key's own gate counts towards its position
  float* carry;     // gate sum of all newer tiles, per lane
  float* low;       // what rounding took from it
};

// The running softmax of a block: maximum and sum per lane, and T = sum p (x - m) log2(e) for the
// entropy. `offset` is what a settled lane's logits still lack.
struct Softmax {
  float* max;
  float* sum;
  float* moment;        // nullptr: no entropy wanted
  const float* offset;
};

struct ForwardTable {
  // packed[d * kRows + lane] = rows[lane][d] * factor[lane] for lane < count, 0 beyond.
  void (*pack)(float* packed, const float* const* rows, const float* factor, Index count, Index dim);
  // tile[j][lane] = sum_d packed[d][lane] * keys[j][d] for j < n, within reach.
  void (*product)(float* tile, const float* packed, Index dim, const float* const* keys, Index n,
                  const Reach& reach);
  // tile[j][lane] = -inf where bit `lane` of visible[j] is 0.
  void (*hide)(float* tile, const LaneBits* visible, Index n);
  // m' = max(m, max_j x_j); tile = e^(x - m'); sum, moment and alpha = e^(m - m') follow.
  void (*absorb)(float* tile, Index n, const Softmax& state, float* alpha, const Reach& reach);
  // out[lane][0, width) = out * alpha + sum_j tile[j][lane] * values[j]; width a multiple of kPad,
  // lanes [first, last).
  void (*weighted_sum)(float* out, Index width, const float* tile, const float* const* values,
                       Index n, const float* alpha, const Reach& reach, Index first, Index last);
  // Adds CoPE's position logits; gates are sigmoid(gates[j][lane]), newest key (n - 1) first.
  void (*gate_walk)(float* tile, const float* gates, Index n, const GateWalk& walk,
                    const Reach& reach);
  // tile[j][lane] *= factor[lane]
  void (*scale)(float* tile, Index n, const float* factor);
  // tile[j][lane] += term[lane]
  void (*shift)(float* tile, Index n, const float* term);
  // Within reach: tile[j][lane] -= slope[lane] * |lane_position[lane] - key_position[j]|
  void (*slope)(float* tile, Index n, const float* slope, const float* lane_position,
                const float* key_position, const Reach& reach);
  // Within reach: tile[j][lane] += band[row * kRows + lane],
  // row = clamp(start[lane] - key_offset[j], 0, rows - 1)
  void (*band)(float* tile, Index n, const float* band, Index rows, const std::int32_t* start,
               const std::int32_t* key_offset, const Reach& reach);
  // Within reach: tile = cap * tanh(tile / cap)
  void (*soft_cap)(float* tile, Index n, float cap, const Reach& reach);
  // Rotates pairs of x: halves pairs (i, i + width/2), otherwise (2i, 2i + 1). adjoint: backwards.
  void (*rotate)(float* x, Index width, const float* cosine, const float* sine, bool halves,
                 bool adjoint);
  // True when every rows[j][0, width) is finite.
  bool (*all_finite)(const float* const* rows, Index n, Index width);
  // x[i] = e^(x[i] - max) / sum, the weights of a row's kept logits; 0 where x[i] is -inf.
  void (*weigh)(float* x, Index n, float max, float sum);
  // Element-wise, for tests and small uses.
  void (*exp2)(float* x, Index n);
  void (*sigmoid)(float* x, Index n);
  void (*tanh)(float* x, Index n);
};

}  // namespace heed::inline HEED_ABI::simd

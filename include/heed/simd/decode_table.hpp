// SPDX-License-Identifier: Apache-2.0
//
// The primitives of a block with few query rows, as in decoding: the query heads of one kv head
// read every key and value once. Lanes of a vector run along dim, dots are summed by one fixed
// tree, and the results stand in the same transposed tile as everywhere. Bits differ from the
// forward primitives', but never depend on who shares the block.
//
// Rows come from slots in any order, which no hardware prefetcher foresees: `ahead` are the rows
// that will be read next, fetched while these are worked on.

#pragma once

#include "table.hpp"

namespace heed::inline HEED_ABI::simd {

inline constexpr Index kFew = 4;   // query rows are padded to multiples of this

struct Ahead {
  const float* const* rows = nullptr;
  Index count = 0, width = 0;           // of rows, and floats of each
};

struct DecodeTable {
  // tile[j * kRows + lane] = queries[lane] . keys[j] for j < n and lane < count; lanes up to the
  // next multiple of kFew may be written with anything. Queries are [count padded to kFew][width],
  // width a multiple of kPad.
  void (*dots)(float* tile, const float* queries, Index count, Index width,
               const float* const* keys, Index n, const Ahead& ahead);
  // ForwardTable::absorb for lanes < count. Lanes up to the next multiple of kFew, and keys up to
  // that of 8 (a tile has room for kKeys), may be written with anything.
  void (*absorb)(float* tile, Index n, const Softmax& state, float* alpha, Index count);
  // out[lane][0, width) = out * alpha + sum_j tile[j][lane] * values[j] for lanes [first, last).
  void (*weighted_sum)(float* out, Index width, const float* tile, const float* const* values,
                       Index n, const float* alpha, Index first, Index last, const Ahead& ahead);
  // kept[j * stride + lane] = tile[j][lane] for lane < count, 0 up to the next multiple of kFew.
  void (*keep)(float* kept, Index stride, const float* tile, Index n, Index count);
  // share[j] = sum_lane kept[j * stride + lane] * factor[lane]
  void (*share)(float* share, const float* kept, Index stride, Index n, const float* factor);
};

}  // namespace heed::inline HEED_ABI::simd

// SPDX-License-Identifier: Apache-2.0
//
// What the kernel walks: a block of query rows against tiles of keys, newest tile first.
//
// A block holds up to 64 rows of one batch entry and one kv head: rows of one query head where the
// queries are many, stacked query heads of the group where they are few. A tile holds up to 64
// keys; its logits are transposed, one contiguous column per key, one lane per row.

#pragma once

#include "../simd/dispatch.hpp"

namespace heed {
inline namespace HEED_DATA_ABI {

struct Query {
  Index batch, head, row, position;
};

struct Key {
  Index index, position;
};

enum class Visibility { none, some, all };

// Which stream of the keys' side: content, values, or CoPE's separate gate keys.
enum class Source { key, value, gate };

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {

// One value per query row of a block, as Eigen sees it.
using Column = Eigen::Map<Eigen::Array<float, int(kRows), 1>>;

struct Rows {
  Index count = 0;      // lanes in use; the others compute and are thrown away
  Index batch = 0, kv_head = 0;
  Index heads = 0;      // query heads of the call
  Index head[kRows], row[kRows], position[kRows];   // the lanes' queries
  Index min_position = 0, max_position = 0;
  bool one_head = true;       // all lanes belong to the same query head
  bool consecutive = true;    // position[lane] == position[0] + lane
  Index dim = 0;
  float base_scale = 1;       // 1/sqrt(dim), or what Scale says
  const float* packed = nullptr;    // [dim][kRows]: encoded q * base_scale * factor
  const float* scaled = nullptr;    // the same row by row, [kRows][padded_dim]; backward only
  Index padded_dim = 0;             // dim, rounded up to simd::kPad
  simd::Reach reach = simd::kReachAll;   // of products with tables: groups of lanes to compute
  alignas(64) float factor[kRows];  // the leading per-row factors (HeadScale ...) folded into it
  alignas(64) float unfold[kRows];  // 1 / (base_scale * factor): products with tables multiply by it

  Query query(Index lane) const { return {batch, head[lane], row[lane], position[lane]}; }
  LaneBits lanes() const { return count == kRows ? ~LaneBits{0} : (LaneBits{1} << count) - 1; }
};

struct Keys {
  Index count = 0;
  Index first = 0;                         // index of the tile's first key
  const Index* position = nullptr;         // ascending
  const float* const* stream[3] = {nullptr, nullptr, nullptr};

  Key at(Index i) const { return {first + i, position[i]}; }
  const float* const* rows(Source s) const { return stream[int(s)]; }
  const float* row(Source s, Index i) const { return rows(s)[i]; }
  Index min_position() const { return position[0]; }
  Index max_position() const { return position[count - 1]; }
};

// The natural logits of a tile.
struct Logits {
  float* data = nullptr;
  Index keys = 0;

  Column column(Index key) const { return Column(data + key * kRows); }
};

struct Tile {
  const Rows& rows;
  const Keys& keys;
  Logits& logits;
  const LaneBits* visible;     // a word per key, or nullptr when every row sees every key
  const simd::Reach& reach;
  float* spare;                // a second tile of scratch, for a score's own products
};

// The backward pass's view of a tile: d loss / d logit, which each score turns from that of its
// outputs into that of its inputs.
struct Adjoint {
  Logits& logits;
  float* gates;   // the same for the gates' logits, where a score takes them from another stream
};

// What a block's queries collect beside the product with the keys.
struct RowsAdjoint {
  float* dq;               // [kRows][padded_dim], of the packed queries
  double base_scale = 0;   // of Rows::base_scale, where a score reads it
};

}  // namespace HEED_ABI
}  // namespace heed

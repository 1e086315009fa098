// SPDX-License-Identifier: Apache-2.0
//
// The walk: one block of query rows against its tiles of keys, newest to oldest. A visitor
// receives each tile with its logits after all scores; forward absorbs them.
//
// A block holds 64 rows of one query head where q_len >= 64, else stacked query heads of one kv
// head. Tiles start at multiples of 64 key indices. Both are cut by shape alone, and every lane
// computes by itself, so a row's bits depend on its own query and keys only.

#pragma once

#include "../tile/visibility.hpp"
#include "operands.hpp"

namespace heed::inline HEED_ABI {

// The blocks of one kv head of one batch entry.
struct Blocks {
  Index q_len, group;          // query heads per kv head
  bool stacked;
  Index per_head, count;

  explicit Blocks(const Shape& s)
      : q_len(s.q_len),
        group(s.kv_heads == 0 ? 0 : s.heads / s.kv_heads),
        stacked(s.q_len < kRows),
        per_head((s.q_len + kRows - 1) / kRows),
        count(stacked ? (group * q_len + kRows - 1) / kRows : group * per_head) {}

  // The block's queries; rows at and beyond the batch entry's extents are left out.
  void fill(Index block, Index batch, Index kv_head, const Placed& placed, Rows& rows) const {
    rows.count = 0;
    rows.batch = batch;
    rows.kv_head = kv_head;
    const Index first = stacked ? block * kRows : block % per_head * kRows;
    const Index end = std::min(first + kRows, stacked ? group * q_len : q_len);
    for (Index i = first; i < end; ++i) {
      const Index row = stacked ? i % q_len : i;
      if (row >= placed.extents.q_len) continue;
      rows.head[rows.count] = kv_head * group + (stacked ? i / q_len : block / per_head);
      rows.row[rows.count] = row;
      rows.position[rows.count++] = placed.query[row];
    }
    rows.min_position = rows.max_position = rows.count == 0 ? 0 : rows.position[0];
    rows.one_head = rows.consecutive = true;
    for (Index lane = 1; lane < rows.count; ++lane) {
      rows.min_position = std::min(rows.min_position, rows.position[lane]);
      rows.max_position = std::max(rows.max_position, rows.position[lane]);
      rows.one_head = rows.one_head && rows.head[lane] == rows.head[0];
      rows.consecutive = rows.consecutive && rows.position[lane] == rows.position[0] + lane;
    }
  }
};

// One walker with its scratch. `Reads` is where it reads from: the tensors of a call (Operands), or
// the slots of a cache.
template <class Reads>
class Walk {
 public:
  using Policies = typename Reads::Policies;
  using States = typename Policies::States;

  explicit Walk(const Reads& operands)
      : operands_(operands),
        blocks_(operands.shape),
        scratch_((operands.shape.dim + 2 * kKeys + kEncodedRows * operands.shape.dim) * kRows),
        packed_(scratch_.data()),
        logits_(packed_ + operands.shape.dim * kRows),
        spare_(logits_ + kKeys * kRows),
        encoded_(spare_ + kKeys * kRows) {}

  Rows& rows() { return rows_; }

  // Packs the queries of one block; false when it has none.
  bool open(Index batch, Index kv_head, Index block) {
    const Shape& shape = operands_.shape;
    blocks_.fill(block, batch, kv_head, operands_.placed(batch, kv_head), rows_);
    if (rows_.count == 0) return false;
    rows_.heads = shape.heads;
    rows_.dim = shape.dim;
    rows_.base_scale = operands_.pack.base_scale(shape.dim);
    alignas(64) float fold[kRows] = {};
    const float* query[kRows];
    for (Index lane = 0; lane < kRows; ++lane) {
      const bool used = lane < rows_.count;
      rows_.factor[lane] = used ? operands_.pack.folded_factor(rows_.query(lane)) : 1.0f;
      fold[lane] = rows_.base_scale * rows_.factor[lane];
      rows_.unfold[lane] = 1.0f / fold[lane];
      if (!used) continue;
      query[lane] = operands_.q.row(batch, rows_.head[lane], rows_.row[lane]);
      if constexpr (Policies::kEncoded) {
        float* const x = encoded_ + lane * shape.dim;
        std::copy_n(query[lane], shape.dim, x);
        operands_.pack.encode(Vector(x, shape.dim), rows_.row[lane], operands_.query_tables(batch));
        query[lane] = x;
      }
    }
    simd::forward().pack(packed_, query, fold, rows_.count, shape.dim);
    rows_.packed = packed_;
    return true;
  }

  States begin() const { return operands_.pack.begin(rows_); }

  // Tiles that may be visible are numbers 0 (oldest) ... tiles() - 1.
  Index tiles() const {
    const Placed& placed = operands_.placed(rows_.batch, rows_.kv_head);
    return (keys_in_reach(placed) + kKeys - 1) / kKeys;
  }

  // Loads a tile with the logits of the encoded, scaled product, hidden ones -inf (or without, for
  // who has kept them). False when no row of the block sees any of its keys.
  bool load(Index number, bool with_logits = true) {
    const Placed& placed = operands_.placed(rows_.batch, rows_.kv_head);
    keys_.first = number * kKeys;
    keys_.count = std::min(kKeys, keys_in_reach(placed) - keys_.first);
    keys_.position = placed.key + keys_.first;
    some_ = false;
    if constexpr (Policies::kMasked) {
      const Visibility visibility = seen_.look(operands_.pack, rows_, keys_);
      if (visibility == Visibility::none) return false;
      some_ = visibility == Visibility::some;
    }
    read(keys_);
    view_ = {logits_, keys_.count};
    if (!with_logits) return true;
    const simd::ForwardTable& simd = simd::forward();
    simd.product(logits_, packed_, rows_.dim, keys_.rows(Source::key), keys_.count, reach());
    if (some_) simd.hide(logits_, seen_.lanes, keys_.count);
    return true;
  }

  // The tile loaded last.
  Tile tile() { return {rows_, keys_, view_, some_ ? seen_.lanes : nullptr, reach(), spare_}; }

  // visit(tile, offset) for every tile that any row of the block sees, newest first, after all
  // scores; offset is what the softmax has still to add per lane, or nullptr.
  template <class Visitor>
  void walk(States& states, Visitor&& visit) {
    for (Index number = tiles() - 1; number >= 0; --number) {
      if (!load(number)) continue;
      const Tile loaded = tile();
      visit(loaded, operands_.pack.forward(loaded, states));
    }
  }

 private:
  static constexpr Index kEncodedRows = Policies::kEncoded ? 1 : 0;

  const simd::Reach& reach() const { return some_ ? seen_.reach : simd::kReachAll; }

  Index keys_in_reach(const Placed& placed) const {
    Index keys = placed.extents.kv_len;
    if constexpr (Policies::kCausal) {   // later keys are never visible
      keys = std::upper_bound(placed.key, placed.key + keys, rows_.max_position) - placed.key;
    }
    return keys;
  }

  void read(Keys& keys) {
    const auto point = [&](Source source, const float** rows) {
      for (Index j = 0; j < keys.count; ++j) {
        rows[j] = operands_.row(source, rows_.batch, rows_.kv_head, keys.first + j);
      }
      keys.stream[int(source)] = rows;
    };
    point(Source::key, key_);
    point(Source::value, value_);
    if (operands_.has_gates()) point(Source::gate, gate_);
  }

  const Reads& operands_;
  const Blocks blocks_;
  Buffer<float> scratch_;
  float* const packed_;
  float* const logits_;
  float* const spare_;
  float* const encoded_;
  Rows rows_;
  Keys keys_;
  Logits view_;
  Seen seen_;
  bool some_ = false;   // whether the loaded tile is partly hidden
  const float* key_[kKeys];
  const float* value_[kKeys];
  const float* gate_[kKeys];
};

}  // namespace heed::inline HEED_ABI

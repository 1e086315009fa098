// SPDX-License-Identifier: Apache-2.0
//
// The walk of one query token over the slots of a cache: the tile, the hooks and the softmax of
// kernel/walk.hpp, with the primitives for few rows. A block holds the query heads of one kv head,
// so each key and value is read once for all of them; tile edges are multiples of 64 ranks.

#pragma once

#include "../kernel/operands.hpp"
#include "../tile/softmax.hpp"
#include "access.hpp"

namespace heed::inline HEED_ABI::detail {

// What one step reads. `position[b]` is the token's; Tables are the encodings' at it, or, with
// KeyPositions::in_cache, at all ranks.
template <class E, class... Ps>
struct SlotReads {
  using Policies = Pack<Ps...>;
  using Tables = decltype(std::declval<Pack<Ps...>>().tables(List<Index>{}, Index{}));

  Cache<E>& cache;
  const Pack<Ps...>& pack;
  View<const float> q;             // [batch, heads, 1, dim], the token of this step
  const Objects<Tables>* tables;   // per entry, or one for all ranks
  const float* zeros;              // a value row for hidden keys
  Index heads, kv_heads, group;    // query heads per kv head
  Index dim, v_dim;
  bool in_cache;

  const Tables& tables_of(Index b) const { return (*tables)[in_cache ? 0 : b]; }
};

template <class Reads>
class FewWalk {
 public:
  using Policies = typename Reads::Policies;
  using States = typename Policies::States;

  explicit FewWalk(const Reads& reads)
      : reads_(reads),
        width_((reads.dim + simd::kPad - 1) / simd::kPad * simd::kPad),
        lanes_(std::min(kRows, (reads.group + simd::kFew - 1) / simd::kFew * simd::kFew)),
        scratch_((1 + kPacked) * kKeys * kRows + kPacked * reads.dim * kRows + lanes_ * width_ +
                 (reads.in_cache ? 2 * kKeys * width_ : 0)),
        logits_(scratch_.data()),
        spare_(kPacked ? logits_ + kKeys * kRows : nullptr),
        scaled_(logits_ + (1 + kPacked) * kKeys * kRows),
        packed_(kPacked ? scaled_ + lanes_ * width_ : nullptr),
        encoded_(scaled_ + lanes_ * width_ + kPacked * reads.dim * kRows) {}

  const Rows& rows() const { return rows_; }

  // Encodes and scales the queries of one block.
  void open(Index b, Index kv_head, Index block) {
    const Slots& slots = reads_.cache.slots(b, kv_head);
    slots_ = &slots;
    const Index first = kv_head * reads_.group + block * kRows;
    rows_.count = std::min(kRows, reads_.group - block * kRows);
    rows_.batch = b;
    rows_.kv_head = kv_head;
    rows_.heads = reads_.heads;
    rows_.min_position = rows_.max_position = slots.position(slots.size() - 1);
    rows_.one_head = rows_.consecutive = rows_.count == 1;
    rows_.dim = reads_.dim;
    rows_.base_scale = reads_.pack.base_scale(reads_.dim);
    for (Index lane = 0; lane < kRows; ++lane) {
      const bool used = lane < rows_.count;
      rows_.head[lane] = first + (used ? lane : 0);
      rows_.row[lane] = 0;
      rows_.position[lane] = rows_.max_position;
      rows_.factor[lane] = used ? reads_.pack.folded_factor(rows_.query(lane)) : 1.0f;
      rows_.unfold[lane] = 1.0f / (rows_.base_scale * rows_.factor[lane]);
    }
    std::fill_n(scaled_, lanes_ * width_, 0.0f);
    if constexpr (kPacked) std::fill_n(packed_, reads_.dim * kRows, 0.0f);
    for (Index lane = 0; lane < rows_.count; ++lane) {
      float* const x = scaled_ + lane * width_;
      std::copy_n(reads_.q.row(b, rows_.head[lane], 0), reads_.dim, x);
      if constexpr (Policies::kEncoded) {
        const Index at = reads_.in_cache ? slots.size() - 1 : 0;
        reads_.pack.encode(Vector(x, reads_.dim), at, reads_.tables_of(b));
      }
      const float fold = rows_.base_scale * rows_.factor[lane];
      for (Index d = 0; d < reads_.dim; ++d) x[d] *= fold;
      if constexpr (kPacked) {
        for (Index d = 0; d < reads_.dim; ++d) packed_[d * kRows + lane] = x[d];
      }
    }
    rows_.packed = packed_;
    const auto groups = std::uint8_t((rows_.count + simd::kGroup - 1) / simd::kGroup);
    for (Index chunk = 0; chunk < simd::kChunks; ++chunk) {
      rows_.reach.first[chunk] = 0;
      rows_.reach.last[chunk] = groups;
    }
  }

  States begin() const { return reads_.pack.begin(rows_); }

  // As Walk::load, tile after tile from the newest down to `oldest`; while one is used, the next
  // one is fetched.
  bool load(Index number, Index oldest) {
    const Index b = rows_.batch;
    keys_.first = number * kKeys;
    keys_.count = std::min(kKeys, slots_->size() - keys_.first);
    keys_.position = slots_->positions() + keys_.first;
    some_ = false;
    if constexpr (Policies::kMasked) {
      const Visibility visibility = seen_.look(reads_.pack, rows_, keys_);
      if (visibility == Visibility::none) return false;
      some_ = visibility == Visibility::some;
    }
    if (ahead_.count > 0 && ahead_of_ == number) {
      std::swap(key_, next_);
    } else {
      point(Source::key, keys_.first, keys_.count, key_);
    }
    point(Source::value, keys_.first, keys_.count, value_);
    keys_.stream[int(Source::key)] = key_;
    keys_.stream[int(Source::value)] = value_;
    if (reads_.cache.options().gate_keys) {
      point(Source::gate, keys_.first, keys_.count, gate_);
      keys_.stream[int(Source::gate)] = gate_;
    }
    ahead_ = {};
    if (number > oldest) {
      point(Source::key, keys_.first - kKeys, kKeys, next_);
      ahead_ = {next_, kKeys, width_};
      ahead_of_ = number - 1;
    }
    if (reads_.in_cache) encode(b);
    simd::decode().dots(
        logits_, scaled_, rows_.count, width_, key_, keys_.count,
        {value_, keys_.count, CacheAccess::stride(reads_.cache, Source::value)});
    if (some_) simd::forward().hide(logits_, seen_.lanes, keys_.count);
    view_ = {logits_, keys_.count};
    return true;
  }
  Tile tile() {
    return {rows_, keys_, view_, some_ ? seen_.lanes : nullptr, some_ ? seen_.reach : rows_.reach,
            spare_};
  }

  // BlockSoftmax::absorb with the primitives for few rows.
  void absorb(BlockSoftmax& softmax, const Tile& tile, const float* offset) const {
    alignas(64) static constexpr float kNoOffset[kRows] = {};
    const Index n = tile.keys.count, count = rows_.count;
    float* const weights = tile.logits.data;
    const simd::DecodeTable& simd = simd::decode();
    simd.absorb(weights, n,
                {softmax.max, softmax.sum, softmax.with_moment ? softmax.moment : nullptr,
                 offset == nullptr ? kNoOffset : offset},
                softmax.alpha, count);
    if (tile.visible == nullptr || simd::forward().all_finite(value_, n, softmax.width)) {
      simd.weighted_sum(softmax.out, softmax.width, weights, value_, n, softmax.alpha, 0, count,
                        ahead_);
      return;
    }
    for (Index lane = 0; lane < count; ++lane) {
      const float* seen[kKeys];
      for (Index j = 0; j < n; ++j)
        seen[j] = tile.visible[j] >> lane & 1 ? value_[j] : reads_.zeros;
      simd.weighted_sum(softmax.out, softmax.width, weights, seen, n, softmax.alpha, lane, lane + 1,
                        {});
    }
  }

 private:
  // Whether a score may multiply the queries with a table, as CoPE does.
  static constexpr Index kPacked = [] {
    bool stateful = false;
    [&]<class... S>(std::tuple<S...>*) {
      ((stateful = stateful || !std::same_as<S, Nothing>), ...);
    }(static_cast<States*>(nullptr));
    return stateful ? 1 : 0;
  }();

  // Where the vectors of ranks [first, first + count) stand.
  void point(Source source, Index first, Index count, const float** rows) const {
    const Index stride = CacheAccess::stride(reads_.cache, source);
    const float* const base = CacheAccess::stream(reads_.cache, source, rows_.batch, rows_.kv_head);
    const Index* const order = slots_->order() + first;
    for (Index j = 0; j < count; ++j) rows[j] = base + order[j] * stride;
  }
  // Keys stored raw, encoded at their rank.
  void encode(Index b) {
    if constexpr (Policies::kEncoded) {
      const bool gates = reads_.cache.options().gate_keys;
      for (Index j = 0; j < keys_.count; ++j) {
        for (int i = 0; i < (gates ? 2 : 1); ++i) {
          const float** const rows = i == 0 ? key_ : gate_;
          float* const to = encoded_ + (i * kKeys + j) * width_;
          std::copy_n(rows[j], width_, to);
          reads_.pack.encode(Vector(to, reads_.dim), keys_.first + j, reads_.tables_of(b));
          rows[j] = to;
        }
      }
    }
  }

  const Reads& reads_;
  const Slots* slots_ = nullptr;
  const Index width_, lanes_;
  Buffer<float> scratch_;
  float* const logits_;
  float* const spare_;
  float* const scaled_;
  float* const packed_;
  float* const encoded_;
  Rows rows_;
  Keys keys_;
  Logits view_;
  Seen seen_;
  simd::Ahead ahead_;      // the keys of tile ahead_of_
  Index ahead_of_ = -1;
  bool some_ = false;
  const float* of_[4][kKeys];
  const float** key_ = of_[0];
  const float** next_ = of_[1];
  const float** value_ = of_[2];
  const float** gate_ = of_[3];
};

}  // namespace heed::inline HEED_ABI::detail

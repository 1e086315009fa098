// SPDX-License-Identifier: Apache-2.0
//
// A prompt that attends in one go: over what a cache holds and over itself. The walk, blocks and
// primitives are those of attend; tile edges are multiples of 64 ranks, so while everything fits a
// prompt cut in pieces gives the same bits as in one.

#pragma once

#include "../kernel/forward.hpp"
#include "call.hpp"

namespace heed::inline HEED_ABI::detail {

// Everything a prompt's walk reads: per kv head of an entry the vectors of `held` cached tokens and
// then the new ones, encoded.
template <class E, class... Ps>
class PromptReads {
 public:
  using Policies = Pack<Ps...>;
  using Tables = decltype(std::declval<Pack<Ps...>>().tables(List<Index>{}, Index{}));

  template <class Executor>
  PromptReads(Executor&& executor, Cache<E>& the_cache, const CacheCall& the_call,
              const Pack<Ps...>& the_pack)
      : cache(the_cache), call(the_call), pack(the_pack), shape(the_call.shape) {
    for (Index b = 0; b < shape.batch; ++b) {
      for (Index g = 0; g < shape.kv_heads; ++g) most_held = std::max(most_held, cache.size(b, g));
    }
    shape.kv_len = most_held + shape.q_len;
    key_stride = CacheAccess::stride(cache, Source::key);
    padded_width = CacheAccess::stride(cache, Source::value);
    zeros = Buffer<float>(std::max(key_stride, padded_width));
    std::fill_n(zeros.data(), zeros.size(), 0.0f);
    place();
    copy(executor);
  }

  // One kv head's view, as Walk and ForwardBlock want it.
  struct Head {
    using Policies = PromptReads::Policies;
    const PromptReads& all;
    Index kv_head;
    const Shape& shape = all.shape;
    const Pack<Ps...>& pack = all.pack;
    const View<const float>& q = all.call.q;
    const Buffer<float>& zeros = all.zeros;
    Index padded_width = all.padded_width;

    const Placed& placed(Index b, Index g) const { return all.placed(b, g); }
    const float* row(Source s, Index b, Index g, Index i) const { return all.row(s, b, g, i); }
    bool has_gates() const { return all.cache.options().gate_keys; }
    const Tables& query_tables(Index b) const { return all.query_tables(b, kv_head); }
  };

  const Placed& placed(Index b, Index g) const { return placed_[at(b, g)]; }
  Index held(Index b, Index g) const { return cache.size(b, g); }
  const float* row(Source s, Index b, Index g, Index i) const {
    const Index held = cache.size(b, g);
    if (i < held && !(in_cache() && s != Source::value)) {
      return CacheAccess::place(cache, s, b, g, cache.slots(b, g).slot(i));
    }
    return encoded(s, b, g, in_cache() && s != Source::value ? i : i - held);
  }
  // The vector of a new token as the cache will store it.
  const float* stored(Source s, Index b, Index g, Index t) const {
    if (!in_cache() || s == Source::value) return encoded(s, b, g, t);
    return (s == Source::key ? call.k : call.gates).row(b, g, t);
  }
  const Tables& query_tables(Index b, Index g) const {
    return query_tables_[in_cache() ? at(b, g) : std::size_t(b)];
  }
  bool in_cache() const { return cache.options().key_positions == KeyPositions::in_cache; }

  Cache<E>& cache;
  const CacheCall& call;
  const Pack<Ps...>& pack;
  Shape shape;
  Index most_held = 0, key_stride = 0, padded_width = 0;
  Buffer<float> zeros;

 private:
  std::size_t at(Index b, Index g) const { return std::size_t(b * shape.kv_heads + g); }
  float* encoded(Source s, Index b, Index g, Index i) const {
    const Index stride = CacheAccess::stride(cache, s);
    return const_cast<float*>(scratch_[int(s)].data()) + (Index(at(b, g)) * rows_ + i) * stride;
  }

  void place() {
    positions_ = Buffer<Index>(shape.batch * shape.kv_heads * shape.kv_len);
    for (Index b = 0; b < shape.batch; ++b) {
      const Index count = call.count[b];
      const Index* const fresh = call.position + b * shape.q_len;
      if (!in_cache()) query_tables_.push_back(pack.tables({fresh, count}, shape.dim));
      for (Index g = 0; g < shape.kv_heads; ++g) {
        const Index held = cache.size(b, g);
        Index* const position = positions_.data() + Index(at(b, g)) * shape.kv_len;
        std::copy_n(cache.slots(b, g).positions(), held, position);
        std::copy_n(fresh, count, position + held);
        placed_.push_back({{count, held + count}, fresh, position});
        if (!in_cache()) continue;
        Buffer<Index> ranks(held + count);
        for (Index i = 0; i < held + count; ++i) ranks[i] = i;
        query_tables_.push_back(pack.tables({ranks.data() + held, count}, shape.dim));
        key_tables_.push_back(pack.tables({ranks.data(), held + count}, shape.dim));
      }
    }
  }
  template <class Executor>
  void copy(Executor&& executor) {
    rows_ = in_cache() ? shape.kv_len : shape.q_len;
    const Index heads = shape.batch * shape.kv_heads;
    const bool gates = cache.options().gate_keys;
    scratch_[int(Source::key)] = Buffer<float>(heads * rows_ * key_stride);
    scratch_[int(Source::value)] = Buffer<float>(heads * rows_ * padded_width);
    if (gates) scratch_[int(Source::gate)] = Buffer<float>(heads * rows_ * key_stride);
    run(executor, heads, [&](Index head) {
      const Index b = head / shape.kv_heads, g = head % shape.kv_heads;
      fill(Source::key, call.k, b, g);
      fill(Source::value, call.v, b, g);
      if (gates) fill(Source::gate, call.gates, b, g);
    });
  }
  void fill(Source s, const View<const float>& from, Index b, Index g) {
    const Index held = in_cache() && s != Source::value ? cache.size(b, g) : 0;
    const Index stride = CacheAccess::stride(cache, s);
    for (Index i = 0; i < held + call.count[b]; ++i) {
      float* const to = encoded(s, b, g, i);
      if (i < held) {
        std::copy_n(CacheAccess::place(cache, s, b, g, cache.slots(b, g).slot(i)), stride, to);
      } else {
        std::copy_n(from.row(b, g, i - held), from.dim(), to);
        std::fill_n(to + from.dim(), stride - from.dim(), 0.0f);
      }
      if constexpr (Policies::kEncoded) {
        if (s == Source::value) continue;
        const auto& tables = in_cache() ? key_tables_[at(b, g)] : query_tables_[std::size_t(b)];
        pack.encode(Vector(to, shape.dim), i, tables);
      }
    }
  }

  std::vector<Placed> placed_;   // [batch * kv_heads]
  Buffer<Index> positions_;
  std::vector<Tables> query_tables_, key_tables_;
  Buffer<float> scratch_[3];     // [batch * kv_heads][rows_][stride]
  Index rows_ = 0;
};

// A second walk, for an eviction that counts every query's weights: sums[rank] += the weights of
// all rows of a kv head, from their lse [batch, heads, q_len]. Each weight is rounded to 2^-36, so
// that the sums are exact in whatever order.
template <class Head>
void add_column_sums(const Head& reads, Index b, Index g, const RowView& lse, double* sums) {
  constexpr double kGrid = 0x1.8p16;
  alignas(64) static constexpr float kNoOffset[kRows] = {};
  Walk<Head> walk(reads);
  for (Index block = 0; block < Blocks(reads.shape).count; ++block) {
    if (!walk.open(b, g, block)) continue;
    const Rows& rows = walk.rows();
    auto states = walk.begin();
    alignas(64) float fixed[kRows], max[kRows], sum[kRows], alpha[kRows];
    for (Index lane = 0; lane < kRows; ++lane) {
      fixed[lane] = lane < rows.count ? lse(b, rows.head[lane], rows.row[lane]) : 0.0f;
    }
    walk.walk(states, [&](const Tile& tile, const float* offset) {
      std::copy_n(fixed, kRows, max);
      std::fill_n(sum, kRows, 0.0f);
      simd::forward().absorb(tile.logits.data, tile.keys.count,
                             {max, sum, nullptr, offset == nullptr ? kNoOffset : offset}, alpha,
                             tile.reach);
      for (Index j = 0; j < tile.keys.count; ++j) {
        const float* const weights = tile.logits.data + j * kRows;
        double total = 0;
        for (Index lane = 0; lane < rows.count; ++lane) {
          total += (double{weights[lane]} + kGrid) - kGrid;
        }
        sums[tile.keys.first + j] += total;
      }
    });
  }
}

}  // namespace heed::inline HEED_ABI::detail

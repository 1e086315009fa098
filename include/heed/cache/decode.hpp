// SPDX-License-Identifier: Apache-2.0
//
// decode: the next tokens of every sequence, through a cache.
//
//   out = decode(q, k, v, cache, policies...)              returns what q is, with v's width
//   out = decode(device, q, k, v, cache, policies...)      Eigen::ThreadPoolDevice or any executor
//   decode([device,] Into{.out = ...}, q, k, v, cache, policies...)   allocates nothing, once warm
//
// q [batch, heads, new, dim], k and v [batch, kv_heads, new, dim | v_dim]. Token by token: append,
// attend over all that is held, observe, evict; so each sees itself, and several tokens in a call
// are the same, bit for bit, as one call each. Positions go on behind the last one, or come from
// Positions; Lengths says how many rows of each entry are tokens. Masks and biases read stored
// positions. CoPE counts the keys that are left: evicting a prefix (Oldest) changes no position of
// the others, evicting from the middle (Tova, HeavyHitters) brings older keys nearer.
//
// Throws std::invalid_argument before anything is changed.

#pragma once

#include "../kernel/attend.hpp"
#include "call.hpp"
#include "step.hpp"

namespace heed::inline HEED_ABI {
namespace detail {

// The tokens of one step, one per active entry. If an exception leaves the step (a user's policy,
// an allocation), they are taken back, and the cache is as it was before them.
template <class E>
class Arrivals {
 public:
  Arrivals(Cache<E>& cache, const Index* active) : cache_(cache), active_(active) {}
  Arrivals(const Arrivals&) = delete;
  ~Arrivals() {
    for (Index b = 0; !stay_ && b < count_; ++b) {
      if (active_[b]) CacheAccess::withdraw(cache_, b, before_[b]);
    }
  }
  void add(Index b, Index position) {
    before_[b] = cache_.next_position(b);
    if (active_[b]) CacheAccess::append(cache_, b, position);
    count_ = b + 1;
  }
  void stay() { stay_ = true; }

 private:
  Cache<E>& cache_;
  const Index* active_;
  Buffer<Index> before_{cache_.options().batch};
  Index count_ = 0;
  bool stay_ = false;
};

// Attends and stores the tokens of a checked call, one after the other.
template <class Executor, class E, class... Ps>
void decode_tokens(Executor&& executor, const Into& into, const CacheCall& call, Cache<E>& cache,
                   const Pack<Ps...>& pack) {
  using Reads = SlotReads<E, Ps...>;
  using Tables = typename Reads::Tables;
  CacheScratch& scratch = CacheAccess::scratch(cache);
  const Shape& s = call.shape;
  const CacheOptions& o = cache.options();
  const bool in_cache = o.key_positions == KeyPositions::in_cache;
  const Index width = CacheAccess::stride(cache, Source::value);
  Buffer<float> zeros(width);
  std::fill_n(zeros.data(), width, 0.0f);
  Buffer<Index> active(s.batch);

  for (Index t = 0; t < s.q_len; ++t) {
    Objects<Tables> tables(s.batch);
    Index most = 0;
    bool any = false;
    Arrivals<E> arrivals(cache, active.data());
    for (Index b = 0; b < s.batch; ++b) {
      active[b] = t < call.count[b];
      any = any || active[b];
      arrivals.add(b, call.position[b * s.q_len + t]);
      for (Index g = 0; g < o.kv_heads; ++g) most = std::max(most, cache.size(b, g));
      if (!in_cache) tables.push(pack.tables({call.position + b * s.q_len + t, active[b]}, s.dim));
    }
    if (!any) break;
    if (in_cache) {
      Buffer<Index> ranks(most);
      for (Index i = 0; i < most; ++i) ranks[i] = i;
      tables.push(pack.tables({ranks.data(), most}, s.dim));
    }
    for (Index b = 0; b < s.batch; ++b) {
      for (Index g = 0; active[b] && g < o.kv_heads; ++g) {
        const Index slot = cache.slots(b, g).slot(cache.size(b, g) - 1);
        const auto store = [&](Source source, const View<const float>& from) {
          float* const to =
              CacheAccess::put(cache, source, b, g, slot, from.row(b, g, t), from.dim());
          if constexpr (Pack<Ps...>::kEncoded) {
            if (source != Source::value && !in_cache) {
              pack.encode(Vector(to, s.dim), 0, tables[b]);
            }
          }
        };
        store(Source::key, call.k);
        store(Source::value, call.v);
        if (o.gate_keys) store(Source::gate, call.gates);
      }
    }
    View<const float> q = call.q;
    q.data += t * q.stride[2];
    const Reads reads{cache,      pack,       q,          &tables,   zeros.data(), o.heads,
                      o.kv_heads, o.heads / o.kv_heads, o.dim, o.v_dim,  in_cache};
    Step<E, Ps...>(reads, scratch, s.batch).run_all(executor, into, t, active.data());
    arrivals.stay();
  }
}

template <class Executor, class E, class... Ps>
void decode_into(Executor&& executor, const Into& into, View<const float> q, View<const float> k,
                 View<const float> v, Cache<E>& cache, const Pack<Ps...>& pack) {
  const Shape s = check_shapes("decode", cache, q, k, v, pack);
  CacheScratch& scratch = CacheAccess::scratch(cache);
  CacheCall call{s, q, k, v, pack.gate_stream().keys, scratch.counts.get(s.batch),
                 scratch.positions.get(s.batch * s.q_len)};
  check_cache_into(into, s, call);
  check_budgets_known(cache);
  place_tokens(cache, s, pack, const_cast<Index*>(call.count), const_cast<Index*>(call.position));
  for (Index b = 0; b < s.batch; ++b) CacheAccess::reserve(cache, b, call.count[b]);
  const Recycler::Scope scope(scratch.caller);
  write_idle(into, call);
  decode_tokens(executor, into, call, cache, pack);
}

template <class Executor, class Q, class K, class V, class E, class... Ps>
auto decode_new(Executor&& executor, const Q& q, const K& k, const V& v, Cache<E>& cache,
                const Ps&... policies) {
  static_assert(
      !ViewLike<Q>,
      "heed: a View owns no memory to return; use decode(Into{.out = ...}, q, k, v, ...)");
  const View<const float> query(q);
  auto result = make_like(q, query.batch(), query.heads(), query.time(), cache.options().v_dim);
  Into into;
  into.out = view_like(result, q, query.heads());
  decode_into(executor, into, query, View<const float>(k), View<const float>(v), cache,
              pack(policies...));
  return result;
}

template <class Executor, class First, class... Rest>
auto decode_on(Executor&& executor, const First& first, Rest&&... rest) {
  if constexpr (std::same_as<First, Into>) {
    const auto into = [&]<class Q, class K, class V, class C, class... Ps>(
                          const Q& q, const K& k, const V& v, C& cache, const Ps&... policies) {
      decode_into(executor, first, View<const float>(q), View<const float>(k), View<const float>(v),
                  cache, pack(policies...));
    };
    into(rest...);
  } else {
    return decode_new(executor, first, rest...);
  }
}

}  // namespace detail

template <class First, class... Rest>
auto decode(First&& first, Rest&&... rest) {
  static_assert(sizeof...(Rest) >= 3,
                "heed: decode takes ([device,] [Into{...},] q, k, v, cache, policies...)");
  if constexpr (detail::is_executor<First>()) {
    return detail::decode_on(first, rest...);
  } else {
    return detail::decode_on(Serial{}, first, rest...);
  }
}

}  // namespace heed::inline HEED_ABI

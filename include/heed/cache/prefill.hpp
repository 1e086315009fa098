// SPDX-License-Identifier: Apache-2.0
//
// prefill: a prompt, or a piece of one, through a cache. Two ways that keep different tokens:
//
//   one_shot    every row sees all that was held and the whole prompt up to itself (or whatever the
//               masks say); then the last row decides what stays, and an eviction that counts (H2O)
//               gets the column sums of all rows. As the released code of TOVA does.
//   stepwise    row by row, evicting after each: decode() of the same tokens, bit for bit, as the
//               perplexities of the paper were made.
//
//   out = prefill([device,] [Into{.out = ...},] q, k, v, cache, [Prefill::stepwise,] policies...)
//
// Shapes, positions and errors are decode's. A prompt cut in pieces gives the same bits as in one:
// stepwise always, one_shot while everything fits the budget. A budget that is a share becomes a
// number here (budget_of), at an entry's first prompt.

#pragma once

#include "decode.hpp"
#include "prompt.hpp"

namespace heed {
inline namespace HEED_DATA_ABI {

enum class Prefill { one_shot, stepwise };

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {
namespace detail {

// Calls f(entry, budget) where a share becomes a budget.
template <class E, class F>
void each_new_budget(const Cache<E>& cache, const CacheCall& call, F&& f) {
  const CacheOptions& o = cache.options();
  if (o.budget_share == 0) return;
  for (Index b = 0; b < o.batch; ++b) {
    if (call.count[b] > 0 && cache.budget(b) < 0) f(b, budget_of(o.budget_share, call.count[b]));
  }
}
// Budgets and room for the tokens of a call.
template <class E>
void make_room(Cache<E>& cache, const CacheCall& call) {
  each_new_budget(cache, call, [&](Index b, Index budget) {
    for (Index g = 0; g < cache.options().kv_heads; ++g) {
      CacheAccess::set_budget(cache, b, g, budget);
    }
  });
  for (Index b = 0; b < call.shape.batch; ++b) CacheAccess::reserve(cache, b, call.count[b]);
}

// A prompt after its attention: what stays of a bank and of the new tokens, and its storing.
template <class E, class... Ps>
class Settlement {
  using Reads = PromptReads<E, Ps...>;

 public:
  explicit Settlement(const Reads& reads) : reads_(reads), cache_(reads.cache) {}

  // weights: [batch, heads, 1, kv_len] of the last row; sums: [batch * kv_heads][kv_len].
  void run(View<const float> weights, const double* sums) {
    const Shape& s = reads_.shape;
    for (Index b = 0; b < s.batch; ++b) {
      const Index count = reads_.call.count[b];
      if (count == 0) continue;
      auto& entry = CacheAccess::entry(cache_, b);
      const Index* const fresh = reads_.call.position + b * s.q_len;
      if (entry.seen == 0) entry.first_position = fresh[0];
      entry.seen += count;
      entry.next_position = fresh[count - 1] + 1;
      const Index banks = CacheAccess::banks(cache_), per_bank = s.kv_heads / banks;
      for (Index bank = 0; bank < banks; ++bank) {
        settle(b, bank * per_bank, (bank + 1) * per_bank, weights, sums);
      }
    }
  }

 private:
  // The bank of kv heads [first, end).
  void settle(Index b, Index first, Index end, View<const float> weights, const double* sums) {
    const Shape& s = reads_.shape;
    auto& bank = CacheAccess::bank(cache_, b, first);
    const Index held = bank.slots.size(), count = reads_.call.count[b], total = held + count;
    const Index next = CacheAccess::entry(cache_, b).next_position;
    const Index* const fresh = reads_.call.position + b * s.q_len;

    // All of them side by side, as if the bank had room: rank = slot.
    Slots wide(total);
    for (Index rank = 0; rank < held; ++rank) wide.append(bank.slots.position(rank));
    for (Index t = 0; t < count; ++t) wide.append(fresh[t]);
    E eviction = bank.eviction;
    reset(eviction, total);
    remember(bank.eviction, eviction, held, [&](Index rank) { return bank.slots.slot(rank); },
             [](Index rank) { return rank; });
    std::vector<float> last;
    if constexpr (watches<E>() == Watches::last) {
      last.assign(std::size_t(total), 0.0f);
      const Index group = s.heads / s.kv_heads;
      for (Index h = first * group; h < end * group; ++h) {
        for (Index i = 0; i < total; ++i) last[std::size_t(i)] += weights.row(b, h, 0)[i];
      }
      observe(eviction, last.data(), wide);
    } else if constexpr (watches<E>() == Watches::every) {
      std::vector<double> all(static_cast<std::size_t>(total), 0.0);
      for (Index g = first; g < end; ++g) {
        for (Index i = 0; i < total; ++i) {
          all[std::size_t(i)] += sums[(b * s.kv_heads + g) * s.kv_len + i];
        }
      }
      observe(eviction, all.data(), wide);
    }
    std::vector<char> goes(std::size_t(total), 0);
    if constexpr (!Cache<E>::kUnbounded) {
      if (total > bank.budget) {
        mark_lowest(eviction, wide, CacheAccess::candidates(cache_, wide, bank.budget),
                    total - bank.budget, goes);
      }
    }

    for (Index t = 0; t < count; ++t) CacheAccess::came(cache_, bank, fresh[t]);
    for (Index rank = 0; rank < total; ++rank) {
      if (goes[std::size_t(rank)]) CacheAccess::gone(cache_, bank, wide.position(rank), next);
    }
    for (Index rank = held - 1; rank >= 0; --rank) {
      if (goes[std::size_t(rank)]) forget(bank.eviction, bank.slots.remove(rank));
    }
    for (Index t = 0; t < count; ++t) {
      if (goes[std::size_t(held + t)]) continue;
      const Index slot = bank.slots.append(fresh[t]);
      forget(bank.eviction, slot);
      for (Index g = first; g < end; ++g) store(b, g, t, slot);
    }
    // What the eviction remembers of those that stay.
    Index kept = 0;
    for (Index rank = 0; rank < total; ++rank) {
      if (goes[std::size_t(rank)]) continue;
      remember(eviction, bank.eviction, 1, [&](Index) { return rank; },
               [&](Index) { return bank.slots.slot(kept); });
      ++kept;
    }
  }

  template <class From, class To>
  static void remember(E& from, E& to, Index count, const From& from_slot, const To& to_slot) {
    if constexpr (numbers<E>() > 0) {
      for (Index i = 0; i < count; ++i) {
        std::copy_n(from.memory(from_slot(i)), numbers<E>(), to.memory(to_slot(i)));
      }
    }
  }
  void store(Index b, Index g, Index t, Index slot) {
    const Shape& s = reads_.shape;
    const auto put = [&](Source source, Index width) {
      CacheAccess::put(cache_, source, b, g, slot, reads_.stored(source, b, g, t), width);
    };
    put(Source::key, s.dim);
    put(Source::value, s.v_dim);
    if (cache_.options().gate_keys) put(Source::gate, s.dim);
  }

  const Reads& reads_;
  Cache<E>& cache_;
};

template <class Executor, class E, class... Ps>
void prefill_one_shot(Executor&& executor, const Into& into, const CacheCall& call,
                      Cache<E>& cache, const Pack<Ps...>& pack) {
  constexpr Watches kWatches = watches<E>();
  const PromptReads<E, Ps...> reads(executor, cache, call, pack);
  using Head = typename PromptReads<E, Ps...>::Head;
  const Shape& s = reads.shape;
  const Index heads = s.batch * s.kv_heads, blocks = Blocks(s).count;
  Buffer<float> weights(kWatches == Watches::last ? s.batch * s.heads * s.kv_len : 0);
  const View<float> last_row(weights.data(), {s.batch, s.heads, 1, s.kv_len});
  Buffer<float> lse(kWatches == Watches::every ? s.batch * s.heads * s.q_len : 0);
  Buffer<double> sums(kWatches == Watches::every ? heads * s.kv_len : 0);

  run(executor, heads * blocks, [&](Index job) {
    const Index block = blocks - 1 - job / heads, b = job % heads / s.kv_heads;
    const Index g = job % heads % s.kv_heads;
    if (call.count[b] == 0) return;
    const Index last = call.count[b] - 1;
    Into mine = into;
    if (kWatches == Watches::last) mine.weights = {last_row, {&last, 1}};
    if (kWatches == Watches::every) mine.lse = {lse.data(), {s.batch, s.heads, s.q_len}};
    const Head head{reads, g};
    ForwardBlock<Head>(head, mine).run(b, g, block);
  });
  if constexpr (kWatches == Watches::every) {
    const RowView all(lse.data(), {s.batch, s.heads, s.q_len});
    run(executor, heads, [&](Index job) {
      const Index b = job / s.kv_heads, g = job % s.kv_heads;
      double* const to = sums.data() + job * s.kv_len;
      std::fill_n(to, s.kv_len, 0.0);
      const Head head{reads, g};
      if (call.count[b] > 0) add_column_sums(head, b, g, all, to);
    });
    for (Index b = 0; into.lse.data != nullptr && b < s.batch; ++b) {
      for (Index h = 0; h < s.heads; ++h) {
        for (Index t = 0; t < call.count[b]; ++t) into.lse(b, h, t) = all(b, h, t);
      }
    }
  }
  make_room(cache, call);
  Settlement<E, Ps...>(reads).run(last_row, sums.data());
}

template <class Executor, class E, class... Ps>
void prefill_into(Executor&& executor, const Into& into, View<const float> q, View<const float> k,
                  View<const float> v, Cache<E>& cache, Prefill how, const Pack<Ps...>& pack) {
  const Shape s = check_shapes("prefill", cache, q, k, v, pack);
  Buffer<Index> count(s.batch), position(s.batch * s.q_len);
  const CacheCall call{s, q, k, v, pack.gate_stream().keys, count.data(), position.data()};
  check_cache_into(into, s, call);
  place_tokens(cache, s, pack, count.data(), position.data());
  each_new_budget(cache, call, [&](Index, Index budget) {
    CacheAccess::check_budget(cache, budget, "prefill");
  });
  write_idle(into, call);
  if (s.q_len == 0) return;
  if (how == Prefill::one_shot) return prefill_one_shot(executor, into, call, cache, pack);
  make_room(cache, call);
  decode_tokens(executor, into, call, cache, pack);
}

template <class Executor, class E, class... Ps>
void prefill_how(Executor&& executor, const Into& into, View<const float> q, View<const float> k,
                 View<const float> v, Cache<E>& cache, Prefill how, const Ps&... policies) {
  prefill_into(executor, into, q, k, v, cache, how, pack(policies...));
}
template <class Executor, class E, class... Ps>
void prefill_how(Executor&& executor, const Into& into, View<const float> q, View<const float> k,
                 View<const float> v, Cache<E>& cache, const Ps&... policies) {
  prefill_into(executor, into, q, k, v, cache, Prefill::one_shot, pack(policies...));
}

template <class Executor, class First, class... Rest>
auto prefill_on(Executor&& executor, const First& first, Rest&&... rest) {
  if constexpr (std::same_as<First, Into>) {
    prefill_how(executor, first, rest...);
  } else {
    static_assert(!ViewLike<First>,
                  "heed: a View owns no memory to return; use prefill(Into{.out = ...}, q, ...)");
    const auto call = [&]<class K, class V, class E, class... Ps>(
                          const K& k, const V& v, Cache<E>& cache, const Ps&... policies) {
      const View<const float> q(first);
      auto result = make_like(first, q.batch(), q.heads(), q.time(), cache.options().v_dim);
      Into into;
      into.out = view_like(result, first, q.heads());
      prefill_how(executor, into, q, View<const float>(k), View<const float>(v), cache,
                  policies...);
      return result;
    };
    return call(rest...);
  }
}

}  // namespace detail

template <class First, class... Rest>
auto prefill(First&& first, Rest&&... rest) {
  static_assert(
      sizeof...(Rest) >= 3,
      "heed: prefill takes ([device,] [Into{...},] q, k, v, cache, [Prefill,] policies...)");
  if constexpr (detail::is_executor<First>()) {
    return detail::prefill_on(first, rest...);
  } else {
    return detail::prefill_on(Serial{}, first, rest...);
  }
}

}  // namespace HEED_ABI
}  // namespace heed

// SPDX-License-Identifier: Apache-2.0
//
// What decode and prefill do to a cache: append a token, evict one. Nothing here checks; the
// callers have.

#pragma once

#include "cache.hpp"

namespace heed::inline HEED_ABI::detail {

struct CacheAccess {
  template <class E>
  static auto& bank(Cache<E>& c, Index b, Index kv_head) {
    return c.bank(b, kv_head);
  }
  template <class E>
  static auto& entry(Cache<E>& c, Index b) {
    return c.entries_[std::size_t(b)];
  }
  template <class E>
  static CacheScratch& scratch(Cache<E>& c) {
    if (c.scratch_ == nullptr) c.scratch_ = std::make_unique<CacheScratch>();
    return *c.scratch_;
  }
  template <class E>
  static Index banks(const Cache<E>& c) {
    return c.banks_per_entry();
  }
  template <class E>
  static float* stream(Cache<E>& c, Source s, Index b, Index kv_head) {
    return c.stream(s, b, kv_head);
  }
  template <class E>
  static Index stride(const Cache<E>& c, Source s) {
    return s == Source::value ? c.value_stride() : c.key_stride();
  }
  template <class E>
  static void check_budget(const Cache<E>& c, Index budget, const char* function) {
    c.check_budget(budget, function);
  }
  template <class E>
  static void set_budget(Cache<E>& c, Index b, Index kv_head, Index budget) {
    c.set_budget(b, kv_head, budget);
  }

  // Room for `more` tokens of an unbounded cache.
  template <class E>
  static void reserve(Cache<E>& c, Index b, Index more) {
    if constexpr (Cache<E>::kUnbounded) {
      for (Index g = 0; g < c.options_.kv_heads; ++g) {
        const Slots& slots = c.bank(b, g).slots;
        const Index needed = slots.size() + more;
        const Index room = c.stores_[std::size_t(b * c.options_.kv_heads + g)].room;
        if (needed > room) c.make_room(b, g, std::max(needed, std::max<Index>(64, 2 * room)));
      }
    }
  }

  // A token's slot in every bank of an entry.
  template <class E>
  static void append(Cache<E>& c, Index b, Index position) {
    auto& entry = c.entries_[std::size_t(b)];
    if (entry.seen == 0) entry.first_position = position;
    ++entry.seen;
    entry.next_position = position + 1;
    for (Index g = 0; g < c.banks_per_entry(); ++g) {
      auto& bank = c.bank(b, g);
      forget(bank.eviction, bank.slots.append(position));
      came(c, bank, position);
    }
  }
  // As if the newest token of an entry had never come: undoes append() while nothing is evicted.
  template <class E>
  static void withdraw(Cache<E>& c, Index b, Index next_position) {
    auto& entry = c.entries_[std::size_t(b)];
    --entry.seen;
    entry.next_position = next_position;
    for (Index g = 0; g < c.banks_per_entry(); ++g) {
      auto& bank = c.bank(b, g);
      bank.slots.remove(bank.slots.size() - 1);
      if (!c.options_.history) continue;
      bank.came.pop_back();
      bank.survival.pop_back();
    }
  }
  template <class E, class Bank>
  static void came(const Cache<E>& c, Bank& bank, Index position) {
    if (!c.options_.history) return;
    bank.came.push_back(position);
    bank.survival.push_back(-1);
  }
  // Where the vectors of a token go, by stream and kv head.
  template <class E>
  static float* place(Cache<E>& c, Source s, Index b, Index kv_head, Index slot) {
    return c.stream(s, b, kv_head) + slot * stride(c, s);
  }
  // Writes a vector into its place and zeros behind it.
  template <class E>
  static float* put(Cache<E>& c, Source s, Index b, Index kv_head, Index slot, const float* from,
                    Index width) {
    float* const to = place(c, s, b, kv_head, slot);
    std::copy_n(from, width, to);
    std::fill_n(to + width, stride(c, s) - width, 0.0f);
    return to;
  }

  template <class E>
  static Candidates candidates(const Cache<E>& c, const Slots& slots, Index budget) {
    return Candidates(slots, c.sinks_kept(), c.newest_kept(budget));
  }
  // The bookkeeping of a token that goes; `next` is the entry's next position.
  template <class E, class Bank>
  static void gone(const Cache<E>& c, Bank& bank, Index position, Index next) {
    const Index survived = next - 1 - position;
    ++bank.evicted;
    bank.evicted_until = next;
    bank.survived += double(survived);
    if (!c.options_.history) return;
    const auto at = std::lower_bound(bank.came.begin(), bank.came.end(), position);
    bank.survival[std::size_t(at - bank.came.begin())] = survived;
  }
  // One token out, if the budget is exceeded.
  template <class E>
  static void evict(Cache<E>& c, Index b, Index kv_head) {
    if constexpr (!Cache<E>::kUnbounded) {
      auto& bank = c.bank(b, kv_head);
      if (bank.slots.size() <= bank.budget) return;
      const Index rank = lowest(bank.eviction, bank.slots, candidates(c, bank.slots, bank.budget));
      gone(c, bank, bank.slots.position(rank), c.entries_[std::size_t(b)].next_position);
      forget(bank.eviction, bank.slots.remove(rank));
    }
  }
};

}  // namespace heed::inline HEED_ABI::detail

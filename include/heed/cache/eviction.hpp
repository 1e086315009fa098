// SPDX-License-Identifier: Apache-2.0
//
// What an eviction policy is: a plain struct, copied once per bank (a set of heads that share
// slots). It says what a slot is worth; the cache drops the slot worth least. The order is total:
// a NaN is worth least, then the lower number, then the older position, so the same input keeps
// the same set on every path.
//
//   static constexpr Scope scope        what the policy is meant for: Scope::layer or Scope::head
//   double worth(slots, rank) const     of the slot at this rank; the least goes first
// and, where wanted,
//   static constexpr Watches watches    which queries' weights `observe` is shown
//   void observe(weights, slots)        weights[rank] (const float*), summed over the bank's query
//                                       heads; Watches::every also takes const double*, summed over
//                                       the queries of a prompt
//   void reset(Index slots)             forget everything; slots are numbered 0 ... slots - 1
//   void forget(Index slot)             the slot is empty or about to be used anew
//   static constexpr Index numbers; double* memory(Index slot)    what it remembers of a slot
//   Index sinks                         the first positions never go
//   Index newest(Index budget) const    how many of the newest never go
// None of them may throw. Tova, HeavyHitters, Oldest and Unbounded are such policies.

#pragma once

#include <concepts>

#include "slots.hpp"

namespace heed {
inline namespace HEED_DATA_ABI {

// Which heads share one set of slots. `policy`: what the eviction states.
enum class Scope { policy, layer, head };

// none: weights are never computed; last: only of the query whose step evicts; every: of all.
enum class Watches { none, last, every };

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {

template <class E>
concept Eviction = std::copyable<E> && requires(const E& e, const Slots& slots, Index rank) {
  { Scope{E::scope} };
  { e.worth(slots, rank) } -> std::convertible_to<double>;
};

// Keeps everything; the slots grow by doubling. Needs no budget.
struct Unbounded {
  static constexpr Scope scope = Scope::layer;
  double worth(const Slots&, Index) const { return 0; }
};

namespace detail {

template <class E>
constexpr Watches watches() {
  if constexpr (requires { E::watches; }) return E::watches;
  return Watches::none;
}
template <class E>
constexpr Index numbers() {
  if constexpr (requires { E::numbers; }) return E::numbers;
  return 0;
}
template <class E>
Index sinks_of(const E& e) {
  if constexpr (requires { e.sinks; }) return e.sinks;
  return 0;
}
template <class E>
Index newest_of(const E& e, Index budget) {
  if constexpr (requires { e.newest(budget); }) return e.newest(budget);
  return 0;
}
template <class E>
void reset(E& e, Index slots) {
  if constexpr (requires { e.reset(slots); }) e.reset(slots);
}
template <class E>
void forget(E& e, Index slot) {
  if constexpr (requires { e.forget(slot); }) e.forget(slot);
}
template <class E, class T>
void observe(E& e, const T* weights, const Slots& slots) {
  if constexpr (requires { e.observe(weights, slots); }) e.observe(weights, slots);
}

// A NaN is worth less than every number; otherwise `<`.
inline bool worth_less(double a, double b) { return a < b || (a != a && b == b); }

// Which ranks may go: not the sinks, not the newest.
struct Candidates {
  Index first = 0, end = 0;   // [first, end)

  Candidates(const Slots& slots, Index sinks, Index newest)
      : first(slots.rank_of(sinks)), end(std::max(slots.size() - newest, first)) {}
};

// The rank that goes first; there must be a candidate.
template <class E>
Index lowest(const E& eviction, const Slots& slots, const Candidates& candidates) {
  Index best = candidates.first;
  double least = eviction.worth(slots, best);
  for (Index rank = best + 1; rank < candidates.end; ++rank) {
    const double worth = eviction.worth(slots, rank);
    if (!worth_less(worth, least)) continue;
    least = worth;
    best = rank;
  }
  return best;
}

// Marks the `count` ranks that go first: goes[rank] = 1.
template <class E>
void mark_lowest(const E& eviction, const Slots& slots, const Candidates& candidates, Index count,
                 std::vector<char>& goes) {
  struct Ranked {
    double worth;
    Index rank;
  };
  std::vector<Ranked> all;
  for (Index rank = candidates.first; rank < candidates.end; ++rank) {
    all.push_back({eviction.worth(slots, rank), rank});
  }
  count = std::min(count, Index(all.size()));
  const auto before = [](const Ranked& a, const Ranked& b) {
    if (worth_less(a.worth, b.worth)) return true;
    return !worth_less(b.worth, a.worth) && a.rank < b.rank;
  };
  std::nth_element(all.begin(), all.begin() + count, all.end(), before);
  for (Index i = 0; i < count; ++i) goes[std::size_t(all[std::size_t(i)].rank)] = 1;
}

}  // namespace detail
}  // namespace HEED_ABI
}  // namespace heed

// SPDX-License-Identifier: Apache-2.0
//
// What goes first (C14, R77): the lowest score, NaN below every number, then the older position;
// one at a time and many at once alike. And what a user's own eviction looks like.

#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/shapes.hpp"

namespace {

using heed::Index;

struct Scores {
  static constexpr heed::Scope scope = heed::Scope::layer;
  std::vector<double> of_rank;
  double worth(const heed::Slots&, Index rank) const { return of_rank[std::size_t(rank)]; }
};
static_assert(heed::Eviction<Scores>);
static_assert(heed::Eviction<heed::Tova> && heed::Eviction<heed::Oldest>);
static_assert(heed::Eviction<heed::HeavyHitters> && heed::Eviction<heed::Unbounded>);

heed::Slots slots_of(Index n) {
  heed::Slots slots(n);
  for (Index i = 0; i < n; ++i) slots.append(10 * i);
  return slots;
}

TEST(Lowest, NanThenLowestThenOldest) {
  const double nan = std::nan("");
  const auto first = [](std::vector<double> worth) {
    const heed::Slots slots = slots_of(Index(worth.size()));
    return heed::detail::lowest(Scores{worth}, slots, {slots, 0, 0});
  };
  EXPECT_EQ(first({3, 1, 2}), 1);
  EXPECT_EQ(first({1, 1, 1}), 0);
  EXPECT_EQ(first({0.0, -0.0, 0.0}), 0);
  EXPECT_EQ(first({-INFINITY, nan, nan}), 1);
  EXPECT_EQ(first({nan, -INFINITY}), 0);
  EXPECT_EQ(first({INFINITY}), 0);
}

TEST(Lowest, ManyAtOnceAreTheSameAsOneByOne) {
  support::Random random(77);
  for (Index n = 1; n <= 200; ++n) {
    std::vector<double> worth;
    for (Index i = 0; i < n; ++i) {
      worth.push_back(random.pick({std::nan(""), 0.0, -0.0, 1.0, 2.0, random.uniform()}));
    }
    heed::Slots slots = slots_of(n);
    const Index sinks = random.integer(0, n - 1) / 2, newest = random.integer(0, n - 1 - sinks) / 2;
    const Index count = random.integer(0, n - sinks - newest);
    std::vector<char> goes(std::size_t(n), 0);
    const heed::detail::Candidates all(slots, 10 * sinks, newest);
    heed::detail::mark_lowest(Scores{worth}, slots, all, count, goes);

    Scores left{worth};
    std::vector<Index> expected;
    for (Index i = 0; i < count; ++i) {
      const Index rank = heed::detail::lowest(left, slots, {slots, 10 * sinks, newest});
      expected.push_back(slots.position(rank) / 10);
      slots.remove(rank);
      left.of_rank.erase(left.of_rank.begin() + rank);
    }
    std::vector<Index> marked;
    for (Index i = 0; i < n; ++i) {
      if (goes[std::size_t(i)]) marked.push_back(i);
    }
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(marked, expected) << n;
  }
}

TEST(Slots, KeepTheirPlaceAndOnlyTheOrderMoves) {
  heed::Slots slots(4);
  EXPECT_EQ(slots.append(5), 0);
  EXPECT_EQ(slots.append(7), 1);
  EXPECT_EQ(slots.append(8), 2);
  EXPECT_EQ(slots.remove(1), 1);
  EXPECT_EQ(slots.slot(1), 2);
  EXPECT_EQ(slots.position(1), 8);
  EXPECT_EQ(slots.rank_of(8), 1);
  EXPECT_EQ(slots.rank_of(100), 2);
  EXPECT_EQ(slots.append(11), 1);   // used anew
  EXPECT_EQ(slots.append(12), 3);
  EXPECT_EQ(slots.size(), 4);
}

// R76: ratios are turned into counts by one function, and compose.
TEST(Budgets, AShareIsRoundedDownAndAtLeastOne) {
  EXPECT_EQ(heed::budget_of(0.5, 8), 4);
  EXPECT_EQ(heed::budget_of(0.5, heed::budget_of(0.5, 8)), 2);
  EXPECT_EQ(heed::budget_of(0.25, 7), 1);
  EXPECT_EQ(heed::budget_of(0.01, 7), 1);
  EXPECT_EQ(heed::budget_of(1, 7), 7);
}

}  // namespace

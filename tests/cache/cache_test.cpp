// SPDX-License-Identifier: Apache-2.0
//
// What a cache is apart from attention: bad use and what it gets, three separate numbers (C12),
// budgets (C15), truncation (R73), reset, copies, statistics.

#include <gtest/gtest.h>

#include "support/cache_world.hpp"

namespace {

using namespace support;
using heed::causal;
using heed::Prefill;
using heed::Scope;

const World& world() {
  static const World w = cache_world({2, 4, 2, 60, 60, 6, 5}, 4);
  return w;
}
heed::CacheOptions options(Index budget = 8) {
  heed::CacheOptions o = options_of(world(), 0);
  o.budget = budget;
  return o;
}

// The sentence that f() is refused with.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "not refused";
}
template <class E>
std::string refused_options(heed::CacheOptions o, E e) {
  return refusal([&] { heed::Cache cache(o, e); });
}

TEST(BadUse, OptionsThatDoNotFitAreRefusedWithFoundAndExpected) {
  EXPECT_EQ(refused_options(options(0), heed::Tova{}),
            "heed::Cache: budget is 0; expected at least sinks + newest kept + 1 = 0 + 0 + 1");
  EXPECT_EQ(refused_options(options(4), heed::Oldest{.sinks = 4}),
            "heed::Cache: budget is 4; expected at least sinks + newest kept + 1 = 4 + 0 + 1");
  EXPECT_EQ(refused_options(options(4), heed::HeavyHitters{.recent = 4}),
            "heed::Cache: budget is 4; expected at least sinks + newest kept + 1 = 0 + 4 + 1");
  heed::CacheOptions o = options(3);
  o.sinks = 2;
  o.protect_current = true;
  EXPECT_EQ(refused_options(o, heed::Tova{}),
            "heed::Cache: budget is 3; expected at least sinks + newest kept + 1 = 2 + 1 + 1");
  o = options();
  o.kv_heads = 3;
  EXPECT_EQ(refused_options(o, heed::Tova{}),
            "heed::Cache: kv_heads is 3; expected a divisor of heads, 4");
  o = options();
  o.budgets = {4, 4};
  EXPECT_NE(refused_options(o, heed::Tova{}).find("one of them"), std::string::npos);
  o.budget = 0;
  EXPECT_NE(refused_options(o, heed::Tova{}).find("Scope::head"), std::string::npos);
  o.scope = Scope::head;
  o.budgets = {4};
  EXPECT_NE(refused_options(o, heed::Tova{}).find("one per kv head, 2"), std::string::npos);
  o.budgets = {4, 0};
  EXPECT_NE(refused_options(o, heed::Tova{}).find("budget is 0"), std::string::npos);
  EXPECT_NE(refused_options(options(), heed::Unbounded{}).find("without an eviction"),
            std::string::npos);
  o = options(0);
  o.budget_share = 1.5;
  EXPECT_NE(refused_options(o, heed::Tova{}).find("at most 1"), std::string::npos);
  o = options();
  o.heads = 0;
  EXPECT_NE(refused_options(o, heed::Tova{}).find("heads is 0"), std::string::npos);
}

// Every refused call leaves the cache and the output as they were.
TEST(BadUse, ARefusedCallChangesNothing) {
  const World& w = world();
  heed::Cache cache{options(), heed::HeavyHitters{}};
  decode_piece(w, piece(w, 0, 20), cache, causal);
  const std::string before = state_of(cache);
  const Piece p = piece(w, 20, 3);
  std::vector<float> out(size(2 * 4 * 3 * 5), 7.0f);
  heed::Into into;
  into.out = {out.data(), {2, 4, 3, 5}};
  int calls = 0;
  const auto expect = [&](const std::string& sentence, auto&& call) {
    ++calls;
    EXPECT_EQ(refusal(call), sentence) << calls;
    EXPECT_EQ(state_of(cache), before) << calls;
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return x == 7.0f; })) << calls;
  };
  const World other = cache_world({2, 8, 2, 60, 60, 6, 5}, 4);
  const Piece heads = piece(other, 20, 3);
  expect("heed::decode: q is [2, 8, 3, 6]; expected [2, 4, 3, 6]",
         [&] { heed::decode(into, heads.q, heads.k, heads.v, cache, causal); });
  const World wide = cache_world({2, 4, 2, 60, 60, 7, 5}, 4);
  const Piece dims = piece(wide, 20, 3);
  expect("heed::decode: q is [2, 4, 3, 7]; expected [2, 4, 3, 6]",
         [&] { heed::decode(into, dims.q, dims.k, dims.v, cache, causal); });
  expect("heed::decode: k is [2, 2, 2, 6]; expected [2, 2, 3, 6]", [&] {
    const Piece shorter = piece(w, 20, 2);
    heed::decode(into, p.q, shorter.k, shorter.v, cache, causal);
  });
  const std::vector<Index> back{19, 20, 21};
  expect("heed::decode: position 19 of entry 0 goes backwards; expected at least 20", [&] {
    heed::decode(into, p.q, p.k, p.v, cache, causal, heed::Positions{.q = back, .k = back});
  });
  const std::vector<Index> lengths{3, 4};
  expect("heed::decode: Lengths.q has 4 for entry 1; expected between 0 and 3", [&] {
    heed::decode(into, p.q, p.k, p.v, cache, causal, heed::Lengths{.q = lengths, .kv = lengths});
  });
  expect("heed::decode: out is [2, 4, 2, 5]; expected [2, 4, 3, 5]", [&] {
    heed::Into less;
    less.out = {out.data(), {2, 4, 2, 5}};
    heed::decode(less, p.q, p.k, p.v, cache, causal);
  });
  expect("heed::prefill: the Window holds 0 positions; expected at least 1", [&] {
    heed::prefill(into, p.q, p.k, p.v, cache, Prefill::stepwise, causal & heed::Window{0});
  });
  expect("heed::decode: gate keys for a cache without; expected CacheOptions::gate_keys to be true",
         [&] {
           Eigen::Matrix<float, -1, -1, Eigen::RowMajor> table(3, 6);
           heed::decode(into, p.q, p.k, p.v, cache, causal, heed::Cope{table}.gate_keys(p.k));
         });
  expect("heed::Cache::truncate: batch entry 2; expected one in [0, 2)",
         [&] { cache.truncate(2, 0); });
  EXPECT_EQ(refusal([&] { cache.truncate(0, 19); }).substr(0, 60),
            "heed::Cache::truncate: position is 19, and tokens went to ma");
  EXPECT_EQ(state_of(cache), before);
}

// C12, R25: positions come from the tokens seen, not from those held.
TEST(Counters, SeenHeldAndRoomAreThreeNumbers) {
  const World w = cache_world({1, 2, 1, 300, 300, 4, 4}, 5);
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 128;
  heed::Cache cache{o, heed::Tova{}};
  for (Index t = 0; t < 300; ++t) decode_piece(w, piece(w, t, 1), cache, causal);
  EXPECT_EQ(cache.seen(), 300);
  EXPECT_EQ(cache.next_position(), 300);
  EXPECT_EQ(cache.size(), 128);
  EXPECT_EQ(cache.slots().room(), 129);
}

// R72: however it is filled, the size is never above the budget and the memory is the same.
TEST(Budget, HoldsHoweverTheCacheIsFilled) {
  const World& w = world();
  std::vector<std::string> states;
  for (const std::vector<Index>& cuts :
       {std::vector<Index>{60}, {1, 59}, {20, 20, 20}, {7, 30, 23}}) {
    heed::Cache cache{options(9), heed::Oldest{.sinks = 2}};
    const Index bytes = cache.bytes();
    Index at = 0;
    for (const Index n : cuts) {
      prefill_piece(w, piece(w, at, n), cache, Prefill::stepwise, causal);
      at += n;
      ASSERT_LE(cache.size(0), 9);
      ASSERT_EQ(cache.size(0), std::min<Index>(at, 9));
    }
    EXPECT_EQ(cache.bytes(), bytes);
    states.push_back(state_of(cache));
  }
  for (const std::string& s : states) EXPECT_EQ(s, states[0]);
}

TEST(Budget, AShareOfThePromptIsFixedByIt) {
  const World& w = world();
  heed::CacheOptions o = options(0);
  o.budget_share = 0.25;
  heed::Cache cache{o, heed::Tova{}};
  EXPECT_EQ(cache.budget(), -1);
  EXPECT_EQ(
      refusal([&] { decode_piece(w, piece(w, 0, 1), cache, causal); }),
      "heed::decode: the budget is a share of a prompt, and entry 0 has had no prompt; expected "
      "prefill first");
  const std::vector<Index> lengths{40, 21};
  prefill_piece(w, piece(w, 0, 40), cache, Prefill::one_shot, causal,
                heed::Lengths{.q = lengths, .kv = lengths});
  EXPECT_EQ(cache.budget(0), 10);
  EXPECT_EQ(cache.budget(1), 5);
  EXPECT_EQ(cache.size(0), 10);
  EXPECT_EQ(cache.size(1), 5);
  decode_piece(w, piece(w, 40, 20), cache, causal);
  EXPECT_EQ(cache.size(0), 10);
  EXPECT_EQ(cache.seen(1), 41);
  cache.reset();
  EXPECT_EQ(cache.budget(0), -1);
}

TEST(Budget, MayDifferPerKvHead) {
  const World& w = world();
  heed::CacheOptions o = options(0);
  o.budgets = {3, 11};
  o.scope = Scope::head;
  heed::Cache both{o, heed::Tova{}};
  decode_piece(w, piece(w, 0, 30), both, causal);
  EXPECT_EQ(both.size(1, 0), 3);
  EXPECT_EQ(both.size(1, 1), 11);
  o.budgets.clear();
  for (const Index budget : {3, 11}) {   // each head as if alone
    o.budget = budget;
    heed::Cache one{o, heed::Tova{}};
    decode_piece(w, piece(w, 0, 30), one, causal);
    const Index g = budget == 3 ? 0 : 1;
    EXPECT_EQ(held(one, 1, g), held(both, 1, g));
  }
}

// R73.
TEST(Truncate, EqualsNeverHavingComeAndIsRefusedOnceTokensWent) {
  const World& w = world();
  for (const bool unbounded : {false, true}) {
    const auto test = [&](auto cache) {
      decode_piece(w, piece(w, 0, 6), cache, causal);
      const std::string six = state_of(cache);
      decode_piece(w, piece(w, 6, 2), cache, causal);
      cache.truncate(0, 6);
      cache.truncate(1, 6);
      EXPECT_EQ(state_of(cache), six);
      cache.truncate(0, 100);   // nothing to take back
      EXPECT_EQ(state_of(cache), six);
      const Outputs again = decode_piece(w, piece(w, 6, 2), cache, causal);
      auto fresh = cache;
      fresh.reset();
      decode_piece(w, piece(w, 0, 6), fresh, causal);
      EXPECT_TRUE(same_bits(again, decode_piece(w, piece(w, 6, 2), fresh, causal)));
      cache.truncate(0, 0);
      EXPECT_EQ(cache.seen(0), 0);
      EXPECT_EQ(cache.next_position(0), 0);
      EXPECT_EQ(cache.seen(1), 8);
    };
    if (unbounded) {
      test(heed::Cache{options_of(w, 0)});
    } else {
      test(heed::Cache{options(8), heed::Tova{}});
    }
  }
  heed::Cache cache{options(8), heed::Oldest{}};
  decode_piece(w, piece(w, 0, 9), cache, causal);
  const std::string full = state_of(cache);
  EXPECT_EQ(
      refusal([&] { cache.truncate(0, 7); }),
      "heed::Cache::truncate: position is 7, and tokens went to make room up to 9; expected at "
      "least 9, or reset");
  EXPECT_EQ(state_of(cache), full);
  heed::Cache counting{options(8), heed::HeavyHitters{}};
  decode_piece(w, piece(w, 0, 3), counting, causal);
  EXPECT_NE(refusal([&] { counting.truncate(0, 1); }).find("has counted"), std::string::npos);
}

TEST(Reset, IsAFreshCacheAndOfOneEntryOnly) {
  const World& w = world();
  const auto test = [&](auto fresh) {
    auto cache = fresh;
    decode_piece(w, piece(w, 0, 30), cache, causal);
    const auto alone = cache;
    cache.reset(0);
    EXPECT_EQ(cache.seen(0), 0);
    EXPECT_EQ(held(cache, 1), held(alone, 1));
    cache.reset();
    EXPECT_EQ(state_of(cache), state_of(fresh));
  };
  test(heed::Cache{options(), heed::HeavyHitters{}});
  test(heed::Cache{options(), heed::Tova{}});
  test(heed::Cache{options_of(w, 0)});
}

TEST(Fork, CopiesAreIndependent) {
  const World& w = world();
  heed::Cache cache{options(), heed::HeavyHitters{}};
  decode_piece(w, piece(w, 0, 20), cache, causal);
  auto fork = cache;
  const std::string before = state_of(cache);
  EXPECT_EQ(state_of(fork), before);
  const Outputs one = decode_piece(w, piece(w, 20, 5), fork, causal);
  EXPECT_EQ(state_of(cache), before);
  EXPECT_TRUE(same_bits(one, decode_piece(w, piece(w, 20, 5), cache, causal)));
  EXPECT_EQ(state_of(fork), state_of(cache));
  auto moved = std::move(fork);
  decode_piece(w, piece(w, 25, 5), moved, causal);
  decode_piece(w, piece(w, 25, 5), cache, causal);
  EXPECT_EQ(state_of(moved), state_of(cache));
}

TEST(Statistics, SayWhatWasKept) {
  const World& w = world();
  heed::CacheOptions o = options(6);
  o.history = true;
  heed::Cache cache{o, heed::Oldest{.sinks = 2}};
  decode_piece(w, piece(w, 0, 20), cache, causal);
  const heed::CacheStatistics s = cache.statistics(1);
  EXPECT_EQ(s.seen, 20);
  EXPECT_EQ(s.held, 6);
  EXPECT_EQ(s.evicted, 14);
  EXPECT_TRUE(s.first_held);
  EXPECT_DOUBLE_EQ(s.recent_share, 4.0 / 6);   // 16 ... 19 are among the last six; 0 and 1 are not
  EXPECT_DOUBLE_EQ(s.mean_survival, 4);        // the fifth newest sees four come, then goes
  const heed::List<Index> survival = cache.survival(1);
  ASSERT_EQ(survival.size, 20);
  for (Index t = 0; t < 20; ++t) EXPECT_EQ(survival[t], t < 2 || t >= 16 ? -1 : 4) << t;
  EXPECT_EQ(held(cache, 1), (std::vector<Index>{0, 1, 16, 17, 18, 19}));
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Prompts: longer than the budget (R70), in one piece or many, in one shot or stepwise; what one
// shot keeps, against a plain computation.

#include <gtest/gtest.h>

#include "support/cache_world.hpp"

namespace {

using namespace support;
using heed::causal;
using heed::Prefill;
using heed::Scope;

template <class E>
heed::Cache<E> cache_of(const World& w, Index budget, E eviction, Scope scope = Scope::policy) {
  heed::CacheOptions o = options_of(w, 0);
  o.budget = budget;
  o.scope = scope;
  return heed::Cache{o, eviction};
}

TEST(R70, APromptBeyondTheBudgetKeepsTheSameSetHoweverItIsCut) {
  const World w = cache_world({1, 2, 1, 10, 10, 4, 4}, 70);
  std::string first;
  for (const std::vector<Index>& cuts :
       {std::vector<Index>{10}, {4, 6}, {5, 5}, {1, 2, 3, 4}, {9, 1}}) {
    for (const Prefill how : {Prefill::stepwise, Prefill::one_shot}) {
      auto cache = cache_of(w, 4, heed::Oldest{.sinks = 1});
      Index at = 0;
      for (const Index n : cuts) {
        prefill_piece(w, piece(w, at, n), cache, how, causal, heed::Alibi{});
        at += n;
      }
      EXPECT_EQ(held(cache), (std::vector<Index>{0, 7, 8, 9}));
      if (how == Prefill::one_shot) continue;
      if (first.empty()) first = state_of(cache);
      EXPECT_EQ(state_of(cache), first);
    }
  }
}

// Outputs and state, stepwise always, one_shot while everything fits.
template <class E>
void expect_chunk_proof(E eviction, Scope scope) {
  const World w = cache_world({2, 6, 2, 150, 150, 8, 6}, 71);
  const heed::Rope rope{.pairing = heed::Pairing::halves};
  for (const bool fits : {false, true}) {
    for (const Prefill how : {Prefill::stepwise, Prefill::one_shot}) {
      if (how == Prefill::one_shot && !fits) continue;
      auto whole = cache_of(w, fits ? 150 : 40, eviction, scope);
      const Outputs all = prefill_piece(w, piece(w, 0, 150), whole, how, causal, rope);
      for (const std::vector<Index>& cuts :
           {std::vector<Index>{1, 63, 1, 85}, {64, 64, 22}, {149, 1}, {3, 70, 77}}) {
        auto cache = cache_of(w, fits ? 150 : 40, eviction, scope);
        Index at = 0;
        for (const Index n : cuts) {
          const Outputs part = prefill_piece(w, piece(w, at, n), cache, how, causal, rope);
          for (Index t = 0; t < n; ++t) {
            ASSERT_TRUE(same_bits(row_of(w, part, n, t), row_of(w, all, 150, at + t))) << at + t;
          }
          at += n;
        }
        ASSERT_TRUE(state_of(cache) == state_of(whole)) << fits << int(how);
      }
    }
  }
}
TEST(Chunks, GiveTheBitsOfTheWhole) {
  for (const Scope scope : {Scope::layer, Scope::head}) {
    expect_chunk_proof(heed::Tova{}, scope);
    expect_chunk_proof(heed::HeavyHitters{}, scope);
    expect_chunk_proof(heed::Oldest{.sinks = 2}, scope);
  }
}

// What one shot keeps: TOVA by the weights of the last row, H2O by the sums of all rows; by plain
// attention's own weights.
std::vector<Index> best(const std::vector<double>& worth, Index budget, Index recent) {
  std::vector<Index> order;
  for (Index i = 0; i < Index(worth.size()) - recent; ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    return worth[size(a)] != worth[size(b)] ? worth[size(a)] > worth[size(b)] : a > b;
  });
  order.resize(size(budget - recent));
  for (Index i = Index(worth.size()) - recent; i < Index(worth.size()); ++i) order.push_back(i);
  std::sort(order.begin(), order.end());
  return order;
}
TEST(OneShot, KeepsWhatTheWeightsSay) {
  const Index n = 100, budget = 21;
  const World w = cache_world({2, 6, 2, n, n, 8, 6}, 72);
  const Outputs all = run(w, w.whole(), heed::pack(causal, heed::Alibi{}), {}, Weights::yes);
  const auto weight = [&](Index b, Index h, Index i, Index j) {
    return double(all.weights[size(((b * 6 + h) * n + i) * n + j)]);
  };
  for (const Scope scope : {Scope::layer, Scope::head}) {
    auto tova = cache_of(w, budget, heed::Tova{}, scope);
    auto heavy = cache_of(w, budget, heed::HeavyHitters{.recent = 5}, scope);
    EXPECT_TRUE(same_bits(prefill_piece(w, piece(w, 0, n), tova, Prefill::one_shot, causal,
                                        heed::Alibi{}).out, all.out));
    EXPECT_TRUE(same_bits(prefill_piece(w, piece(w, 0, n), heavy, Prefill::one_shot, causal,
                                        heed::Alibi{}).lse, all.lse));
    for (Index b = 0; b < 2; ++b) {
      for (Index g = 0; g < 2; ++g) {
        std::vector<double> last(size(n)), sums(size(n));
        for (Index h = scope == Scope::layer ? 0 : g * 3;
             h < (scope == Scope::layer ? 6 : g * 3 + 3); ++h) {
          for (Index j = 0; j < n; ++j) {
            last[size(j)] += weight(b, h, n - 1, j);
            for (Index i = 0; i < n; ++i) sums[size(j)] += weight(b, h, i, j);
          }
        }
        EXPECT_EQ(held(tova, b, g), best(last, budget, 0));
        EXPECT_EQ(held(heavy, b, g), best(sums, budget, 5));
        const auto& slots = heavy.slots(b, g);
        auto& bank = heed::detail::CacheAccess::bank(heavy, b, g);
        for (Index rank = 0; rank < budget; ++rank) {
          EXPECT_NEAR(*bank.eviction.memory(slots.slot(rank)), sums[size(slots.position(rank))],
                      1e-4);
        }
      }
    }
  }
}

// Every step of H2O adds as much as there are query heads, stepwise and in one shot.
TEST(OneShot, ScoresOfHeavyHittersSumToTheQueries) {
  const World w = cache_world({1, 6, 2, 40, 40, 8, 6}, 73);
  for (const Prefill how : {Prefill::one_shot, Prefill::stepwise}) {
    auto cache = cache_of(w, 40, heed::HeavyHitters{});
    prefill_piece(w, piece(w, 0, 40), cache, how, causal);
    double total = 0;
    for (Index g = 0; g < 2; ++g) {
      auto& bank = heed::detail::CacheAccess::bank(cache, 0, g);
      for (Index i = 0; i < 40; ++i) total += *bank.eviction.memory(i);
    }
    EXPECT_NEAR(total, 6 * 40, 1e-4);
  }
}

// One-shot pieces while the cache is full: the last row decides each time; tokens that went never
// come back.
TEST(OneShot, MayBeGivenInPiecesThatDoNotFit) {
  const World w = cache_world({1, 4, 2, 90, 90, 8, 8}, 74);
  auto cache = cache_of(w, 10, heed::Tova{});
  std::vector<char> gone(90, 0);
  for (Index at = 0; at < 90; at += 30) {
    prefill_piece(w, piece(w, at, 30), cache, Prefill::one_shot, causal);
    ASSERT_EQ(cache.size(), 10);
    std::vector<char> here(90, 0);
    for (const Index p : held(cache)) {
      ASSERT_FALSE(gone[size(p)]);
      here[size(p)] = 1;
      const auto key = cache.key(0, 1, cache.slots().rank_of(p));
      for (Index d = 0; d < 8; ++d) ASSERT_EQ(key[d], w.data.k[size((90 + p) * 8 + d)]);
    }
    for (Index p = 0; p < at + 30; ++p) gone[size(p)] = !here[size(p)];
  }
}

}  // namespace

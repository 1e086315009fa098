// SPDX-License-Identifier: Apache-2.0
//
// Sets worked out by hand. Two heads, seven tokens, budget 3, stepwise:
//   logit(h, t, j) = 0.5 b_h[j] - 0.25 (t - j) + 0.7 [(3 t + 5 j + h) mod 4 = 0]

#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <string>

namespace {

using heed::Index;
using heed::Prefill;
using heed::Scope;

// The logits above as a policy of one's own, on top of a product that is 0.
struct Trace {
  void forward(const heed::Tile& tile) const {
    constexpr double b[2][7] = {{0, 1, 2, 1, 0, 3, 1}, {2, 0, 1, 0, 3, 0, 1}};
    for (Index j = 0; j < tile.keys.count; ++j) {
      for (Index lane = 0; lane < tile.rows.count; ++lane) {
        const Index h = tile.rows.head[lane], t = tile.rows.position[lane];
        const Index at = tile.keys.position[j];
        const double bonus = (3 * t + 5 * at + h) % 4 == 0 ? 0.7 : 0;
        tile.logits.column(j)[lane] =
            float(0.5 * b[h][at] - 0.25 * double(t - at) + bonus);
      }
    }
  }
};

// The positions held after each of the tokens 3, 4, 5, 6: "023 034 045 056".
template <class E>
std::string sets(E eviction, Scope scope, Index kv_head, Prefill how, bool by_prefill) {
  constexpr Index kTokens = 7;
  const float zero[2 * kTokens] = {};
  float out[2 * kTokens];
  heed::Cache cache{{.heads = 2, .dim = 1, .budget = 3, .scope = scope}, eviction};
  std::string text;
  for (Index t = 0; t < kTokens; ++t) {
    const heed::View<const float> x(zero, {1, 2, 1, 1});
    heed::Into into;
    into.out = {out, {1, 2, 1, 1}};
    if (by_prefill) {
      heed::prefill(into, x, x, x, cache, how, heed::causal, Trace{});
    } else {
      heed::decode(into, x, x, x, cache, heed::causal, Trace{});
    }
    if (t < 3) continue;
    if (t > 3) text += ' ';
    for (Index i = 0; i < cache.size(0, kv_head); ++i) {
      text += std::to_string(cache.positions(0, kv_head)[i]);
    }
  }
  return text;
}

template <class E>
void expect_sets(const std::string& expected, E eviction, Scope scope, Index kv_head = 0) {
  EXPECT_EQ(sets(eviction, scope, kv_head, Prefill::stepwise, false), expected);
  EXPECT_EQ(sets(eviction, scope, kv_head, Prefill::stepwise, true), expected);
  // A prompt of one token decides by its only row.
  EXPECT_EQ(sets(eviction, scope, kv_head, Prefill::one_shot, true), expected);
}

TEST(HandTrace, Window) { expect_sets("123 234 345 456", heed::Oldest{}, Scope::layer); }
TEST(HandTrace, WindowAndOneSink) {
  expect_sets("023 034 045 056", heed::Oldest{.sinks = 1}, Scope::layer);
}
TEST(HandTrace, TovaLayer) { expect_sets("023 234 245 456", heed::Tova{}, Scope::layer); }
TEST(HandTrace, TovaHead) {
  expect_sets("123 234 235 256", heed::Tova{}, Scope::head, 0);
  expect_sets("023 234 245 456", heed::Tova{}, Scope::head, 1);
}
TEST(HandTrace, HeavyHittersHead) {
  for (const Index head : {0, 1}) {
    expect_sets("023 034 045 056", heed::HeavyHitters{.recent = 2}, Scope::head, head);
  }
}

// Four query heads, two kv heads or one, seven tokens, budget 4, the two newest kept. Logits are 3
// at the favourite key (1 for heads 0 and 1, 2 for heads 2 and 3), -2 at key 0, else 0. The sums
// when the first token must go (t = 4), by hand, keys 0 1 2: heads 0 and 1 give 2.05 7.6 0.28, heads 2
// and 3 give 2.28 2.04 5.7, all four 4.3 9.6 6.0.
struct Favourite {
  void forward(const heed::Tile& tile) const {
    for (Index j = 0; j < tile.keys.count; ++j) {
      for (Index lane = 0; lane < tile.rows.count; ++lane) {
        const Index favourite = tile.rows.head[lane] < 2 ? 1 : 2;
        tile.logits.column(j)[lane] = tile.keys.position[j] == favourite ? 3.0f
                                      : tile.keys.position[j] == 0       ? -2.0f
                                                                         : 0.0f;
      }
    }
  }
};
std::string grouped(Index kv_heads, Index kv_head) {
  const float zero[4] = {};
  float out[4];
  heed::Cache cache{{.heads = 4, .kv_heads = kv_heads, .dim = 1, .budget = 4},
                    heed::HeavyHitters{.recent = 2}};
  heed::Into into;
  into.out = {out, {1, 4, 1, 1}};
  for (Index t = 0; t < 7; ++t) {
    const heed::View<const float> kv(zero, {1, kv_heads, 1, 1});
    heed::decode(into, heed::View<const float>(zero, {1, 4, 1, 1}), kv, kv, cache, heed::causal,
                 Favourite{});
  }
  std::string text;
  for (Index i = 0; i < 4; ++i) text += std::to_string(cache.positions(0, kv_head)[i]);
  return text;
}
TEST(R68, ScoresOfAKvHeadAreTheSumOverItsQueryHeads) {
  EXPECT_EQ(grouped(2, 0), "0156");
  EXPECT_EQ(grouped(2, 1), "0256");
  EXPECT_EQ(grouped(1, 0), "1256");
}

}  // namespace

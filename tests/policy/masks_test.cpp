// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/masks.hpp"

#include "block.hpp"

namespace heed {
namespace {

using test::refusal;

// A picture of `count` queries over as many keys, all at positions 0, 1, ...
template <class M>
std::string picture(const M& mask, Index count) {
  std::string text;
  for (Index i = 0; i < count; ++i) {
    for (Index j = 0; j < count; ++j) {
      text += mask.visible({0, 0, i, i}, {j, j}) ? 'x' : '.';
    }
    text += ' ';
  }
  return text;
}

TEST(Masks, WorkedExamples) {
  EXPECT_EQ(picture(causal, 4), "x... xx.. xxx. xxxx ");
  EXPECT_EQ(picture(causal & Window{2}, 4), "x... xx.. .xx. ..xx ");
  EXPECT_EQ(picture(Window{2}, 4), "xxxx xxxx .xxx ..xx ");
  EXPECT_EQ(picture(causal & Sinks{1}, 4), "x... x... x... x... ");
  EXPECT_EQ(picture(causal & (Window{2} | Sinks{1}), 5), "x.... xx... xxx.. x.xx. x..xx ");
  EXPECT_EQ(picture(!causal, 3), ".xx ..x ... ");
  EXPECT_EQ(picture(where([](Index q, Index k) { return (q - k) % 2 == 0; }), 3), "x.x .x. x.x ");
  EXPECT_EQ(picture(Sinks{0} | causal, 2), "x. xx ");
}

TEST(Masks, CausalIsKnownAtCompileTime) {
  const auto even = where([](Index q, Index k) { return (q - k) % 2 == 0; });
  const auto known = [](const auto& mask) { return std::remove_cvref_t<decltype(mask)>::causal; };
  EXPECT_TRUE(known(causal));
  EXPECT_TRUE(known(causal & even));
  EXPECT_TRUE(known(even & (causal | (Window{3} & causal))));
  EXPECT_FALSE(known(causal | even));
  EXPECT_FALSE(known(Window{3}));
  EXPECT_FALSE(known(Sinks{3}));
  EXPECT_FALSE(known(!causal));
  EXPECT_FALSE(known(!!causal));
}

TEST(Masks, PredicateMayReadQueryAndKey) {
  const auto first_head = where([](Query q, Key k) { return q.head == 0 && k.index != 1; });
  EXPECT_TRUE(first_head.visible({0, 0, 5, 5}, {0, 0}));
  EXPECT_FALSE(first_head.visible({0, 1, 5, 5}, {0, 0}));
  EXPECT_FALSE(first_head.visible({0, 0, 5, 5}, {1, 0}));
}

TEST(Masks, ChecksReachTheLeaves) {
  const Shape shape;
  EXPECT_EQ(refusal([&] { Window{0}.check(shape); }),
            "heed::attend: the Window holds 0 positions; expected at least 1");
  EXPECT_EQ(refusal([&] { (causal & (Sinks{1} | !Window{-3})).check(shape); }),
            "heed::attend: the Window holds -3 positions; expected at least 1");
  EXPECT_EQ(refusal([&] { (Sinks{-1} & causal).check(shape); }),
            "heed::attend: there are -1 Sinks; expected at least 0");
  EXPECT_EQ(refusal([&] { (causal & (Window{1} | Sinks{0})).check(shape); }), "");
}

// visibility tells the truth about the tile, and lanes about each key.
template <class M>
void expect_true(const M& mask, const Rows& rows, const Keys& keys) {
  bool any = false, all = true;
  for (Index j = 0; j < keys.count; ++j) {
    LaneBits bits = 0;
    for (Index lane = 0; lane < rows.count; ++lane) {
      const bool visible = mask.visible(rows.query(lane), keys.at(j));
      any = any || visible;
      all = all && visible;
      bits |= LaneBits{visible} << lane;
    }
    ASSERT_EQ(lanes_of(mask, rows, keys.at(j)), bits) << "key " << j;
  }
  const Visibility said = mask.visibility(rows, keys);
  ASSERT_TRUE(all || said != Visibility::all);
  ASSERT_TRUE(!any || said != Visibility::none);
}

void expect_true_of_all(const Rows& rows, const Keys& keys, Index window, Index sinks) {
  const auto odd = where([](Index q, Index k) { return ((q ^ k) & 1) != 0; });
  const Window w{window};
  const Sinks s{sinks};
  expect_true(causal, rows, keys);
  expect_true(w, rows, keys);
  expect_true(s, rows, keys);
  expect_true(odd, rows, keys);
  expect_true(causal & w, rows, keys);
  expect_true(causal | w, rows, keys);
  expect_true(causal & (w | s), rows, keys);
  expect_true(!causal, rows, keys);
  expect_true((!w) & !s, rows, keys);
  expect_true((!(causal & w)) | s, rows, keys);
  expect_true(odd & causal & !s, rows, keys);
}

TEST(Masks, VisibilityNeverLies) {
  support::Random random(7);
  for (int round = 0; round < 400; ++round) {
    const Index stacked = random.pick<Index>({1, 1, 3});
    const Index gap = random.pick<Index>({1, 1, 2, 40});
    const Index count = random.integer(1, kRows / stacked);
    const Index where_rows = random.integer(-100, 300);
    const test::Block block(test::ascending(random, where_rows, count, gap), stacked);
    const auto positions = test::ascending(random, random.integer(-100, 300),
                                           random.integer(1, kKeys), random.pick<Index>({1, 3}));
    expect_true_of_all(block.rows, test::keys_at(positions), random.integer(1, 150),
                       random.integer(0, 200));
  }
}

TEST(Masks, FarPositionsDoNotOverflow) {
  constexpr Index kFar = Index{1} << 62, kHuge = std::numeric_limits<Index>::max();
  for (const Index at : {-kFar, Index{0}, kFar - 100}) {
    for (const Index key : {-kFar, Index{0}, kFar - 100}) {
      const test::Block block(test::range(at, 64));
      const auto positions = test::range(key, 64);
      for (const Index window : {Index{1}, Index{70}, kFar, kHuge}) {
        expect_true_of_all(block.rows, test::keys_at(positions), window, window);
      }
    }
  }
}

// A mask that says `some` everywhere would pass above and skip nothing.
TEST(Masks, WholeTilesAreSkipped) {
  const test::Block block(test::range(128, 64));
  const auto early = test::range(0, 64), own = test::range(128, 64), late = test::range(192, 64);
  EXPECT_EQ(causal.visibility(block.rows, test::keys_at(early)), Visibility::all);
  EXPECT_EQ(causal.visibility(block.rows, test::keys_at(own)), Visibility::some);
  EXPECT_EQ(causal.visibility(block.rows, test::keys_at(late)), Visibility::none);
  const auto window = causal & Window{65};
  EXPECT_EQ(window.visibility(block.rows, test::keys_at(early)), Visibility::none);
  EXPECT_EQ((causal & Window{192}).visibility(block.rows, test::keys_at(early)), Visibility::all);
  EXPECT_EQ((window | Sinks{4}).visibility(block.rows, test::keys_at(early)), Visibility::some);
}

}  // namespace
}  // namespace heed

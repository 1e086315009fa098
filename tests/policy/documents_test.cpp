// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/documents.hpp"

#include "block.hpp"
#include "heed/policy/masks.hpp"

namespace heed {
namespace {

using test::refusal;

TEST(SameDocument, SeesItsOwnDocumentOnly) {
  const std::vector<Index> ids{7, 7, 3, 3, 3};
  const auto mask = causal & SameDocument{.q = ids};
  std::string picture;
  for (Index i = 0; i < 5; ++i) {
    for (Index j = 0; j < 5; ++j) picture += mask.visible({0, 0, i, i}, {j, j}) ? 'x' : '.';
    picture += ' ';
  }
  EXPECT_EQ(picture, "x.... xx... ..x.. ..xx. ..xxx ");
}

TEST(SameDocument, EntriesMayDiffer) {
  const std::vector<Index> q{1, 2, 2, 2}, k{1, 1, 2, 1, 2, 2};
  const SameDocument mask{.q = q, .k = k, .batch = 2};
  EXPECT_TRUE(mask.visible({0, 0, 1, 0}, {2, 0}));
  EXPECT_FALSE(mask.visible({0, 0, 1, 0}, {1, 0}));
  EXPECT_TRUE(mask.visible({1, 0, 1, 0}, {1, 0}));
  EXPECT_FALSE(mask.visible({1, 0, 1, 0}, {0, 0}));
}

TEST(SameDocument, VisibilityNeverLies) {
  support::Random random(5);
  for (int round = 0; round < 500; ++round) {
    const Index documents = random.pick<Index>({1, 2, 30});
    std::vector<Index> q(256), k(256);
    for (Index& id : q) id = random.integer(1, documents);
    for (Index& id : k) id = random.integer(1, documents);
    if (random.chance(0.5)) std::sort(q.begin(), q.end());
    if (random.chance(0.5)) std::sort(k.begin(), k.end());
    const SameDocument mask{.q = q, .k = k, .batch = 2};
    test::Block block(test::range(0, random.integer(1, 64)));
    block.rows.batch = 1;
    const auto positions = test::range(0, random.integer(1, 64));
    const Keys keys = test::keys_at(positions, 64);
    bool any = false, all = true;
    for (Index j = 0; j < keys.count; ++j) {
      LaneBits bits = 0;
      for (Index lane = 0; lane < block.rows.count; ++lane) {
        const bool visible = mask.visible(block.rows.query(lane), keys.at(j));
        EXPECT_EQ(visible, q[static_cast<std::size_t>(128 + lane)] ==
                               k[static_cast<std::size_t>(128 + 64 + j)]);
        bits |= LaneBits{visible} << lane;
        any = any || visible;
        all = all && visible;
      }
      EXPECT_EQ(lanes_of(mask, block.rows, keys.at(j)), bits);
    }
    const Visibility said = mask.visibility(block.rows, keys);
    EXPECT_TRUE(all || said != Visibility::all);
    EXPECT_TRUE(!any || said != Visibility::none);
    EXPECT_TRUE(documents > 1 || said == Visibility::all);
  }
}

TEST(SameDocument, WrongCountsAreRefused) {
  const std::vector<Index> six{1, 1, 1, 2, 2, 2};
  Shape shape;
  shape.batch = 2, shape.q_len = 3, shape.kv_len = 6;
  EXPECT_EQ(refusal([&] { SameDocument{.q = six}.check(shape); }),
            "heed::attend: SameDocument has 6 ids of queries; expected 1 x 3 (.batch x q_len)");
  EXPECT_EQ(refusal([&] { SameDocument{.q = six, .batch = 2}.check(shape); }),
            "heed::attend: SameDocument has 6 ids of keys; expected 2 x 6 (.batch x kv_len)");
  EXPECT_EQ(refusal([&] { SameDocument{.q = six, .batch = 3}.check(shape); }),
            "heed::attend: SameDocument has ids of 3 batch entries; expected 1 or q's 2");
  shape.kv_len = 3;
  EXPECT_EQ(refusal([&] { SameDocument{.q = six, .batch = 2}.check(shape); }), "");
}

}  // namespace
}  // namespace heed

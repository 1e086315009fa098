// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/alibi.hpp"

#include "block.hpp"

namespace heed {
namespace {

using test::refusal;

// Tables of the paper's code; R21 lists the libraries that got other head counts wrong.
TEST(Alibi, SlopesForAnyHeadCount) {
  EXPECT_EQ(alibi_slopes(1), (std::vector<float>{0x1p-8f}));
  EXPECT_EQ(alibi_slopes(8), (std::vector<float>{0x1p-1f, 0x1p-2f, 0x1p-3f, 0x1p-4f, 0x1p-5f,
                                                 0x1p-6f, 0x1p-7f, 0x1p-8f}));
  EXPECT_EQ(alibi_slopes(6),
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  const std::vector<float> twelve = alibi_slopes(12);
  EXPECT_NEAR(twelve[8], 0.7071068f, 1e-7f);
  EXPECT_NEAR(twelve[11], 0.0883883f, 1e-7f);
  EXPECT_TRUE(alibi_slopes(0).empty());
  EXPECT_NE(refusal([] { alibi_slopes(-1); }), "");
}

TEST(Alibi, PenaltyIsExactAtFarPositions) {
  const Index far = Index{1} << 40;
  const test::Block block(test::range(far, 30), 2);   // heads 1 and 2 of 4
  const auto positions = test::range(far - 3, 64);
  const Keys keys = test::keys_at(positions);
  const Alibi alibi;
  const auto found = test::tile_after(
      block, keys, [](Index, Index) { return 1.0; },
      [&](const Tile& tile) { alibi.forward(tile, alibi.begin(block.rows)); });
  const float slope[2] = {0x1p-4f, 0x1p-6f};
  test::expect_tile(
      found, block, keys,
      [&](Index lane, Index j) {
        return 1 - static_cast<double>(slope[lane / 30]) * double(std::abs(lane % 30 - (j - 3)));
      },
      0);
}

TEST(Alibi, OwnSlopes) {
  const std::vector<float> slopes{0, 2, 3, -1};
  const Alibi alibi{slopes};
  const test::Block block(test::range(10, 1), 2);
  const std::vector<Index> positions{4, 10};
  const Keys keys = test::keys_at(positions);
  const auto found = test::tile_after(
      block, keys, [](Index, Index) { return 0.0; },
      [&](const Tile& tile) { alibi.forward(tile, alibi.begin(block.rows)); });
  test::expect_tile(
      found, block, keys,
      [](Index lane, Index j) { return j == 1 ? 0 : lane == 0 ? -12 : -18; }, 0);
}

TEST(Alibi, IsChecked) {
  const std::vector<float> two{1, 2}, nan{1, std::numeric_limits<float>::quiet_NaN(), 1};
  Shape shape;
  shape.heads = 3;
  EXPECT_EQ(refusal([&] { Alibi{}.check(shape); }), "");
  EXPECT_EQ(refusal([&] { Alibi{two}.check(shape); }),
            "heed::attend: Alibi has 2 slopes; expected one per query head, 3, or none for the "
            "paper's");
  EXPECT_NE(refusal([&] { Alibi{nan}.check(shape); }), "");
}

}  // namespace
}  // namespace heed

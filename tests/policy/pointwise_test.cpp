// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/pointwise.hpp"

#include "block.hpp"

namespace heed {
namespace {

const test::Numbers kBefore = [](Index lane, Index j) { return static_cast<double>(lane - 2 * j); };

TEST(Pointwise, ChangesEveryLogit) {
  const float half = 0.5f;
  const auto square = pointwise([=](float x) { return half * x * x; }, [](float x) { return x; });
  const test::Block block(test::range(0, 40));
  const auto positions = test::range(0, 33);
  const Keys keys = test::keys_at(positions);
  const auto found =
      test::tile_after(block, keys, kBefore, [&](const Tile& t) { square.forward(t); });
  test::expect_tile(
      found, block, keys,
      [](Index lane, Index j) { return kBefore(lane, j) * kBefore(lane, j) / 2; }, 0);
  EXPECT_EQ(square.df(3), 3);
}

TEST(Pointwise, MayReadQueryAndKey) {
  const auto by_place = pointwise(
      [](float x, Query q, Key k) {
        return x + static_cast<float>(100 * q.head + q.position - 2 * k.position + 7 * k.index);
      },
      [](float, Query, Key) { return 1.0f; });
  const test::Block block(test::range(20, 16), 4);
  const auto positions = test::range(5, 64);
  const Keys keys = test::keys_at(positions, 3);
  const auto found =
      test::tile_after(block, keys, kBefore, [&](const Tile& t) { by_place.forward(t); });
  test::expect_tile(
      found, block, keys,
      [&](Index lane, Index j) {
        return kBefore(lane, j) + static_cast<double>(100 * block.rows.head[lane] + 20 + lane % 16 -
                                                      2 * (5 + j) + 7 * (3 + j));
      },
      0);
}

}  // namespace
}  // namespace heed

// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/soft_cap.hpp"

#include "block.hpp"

namespace heed {
namespace {

TEST(SoftCap, EqualsTheFormula) {
  const SoftCap cap{30};
  const test::Block block(test::range(0, 64));
  const auto positions = test::range(0, 50);
  const Keys keys = test::keys_at(positions);
  const test::Numbers before = [](Index lane, Index j) {
    return static_cast<double>((lane - 32) * (j - 25)) / 4;
  };
  const auto found = test::tile_after(block, keys, before, [&](const Tile& t) { cap.forward(t); });
  test::expect_tile(
      found, block, keys,
      [&](Index lane, Index j) { return 30 * std::tanh(before(lane, j) / 30); }, 1e-5);
}

TEST(SoftCap, IsChecked) {
  EXPECT_EQ(test::refusal([] { SoftCap{50}.check({}); }), "");
  EXPECT_EQ(test::refusal([] { SoftCap{0}.check({}); }),
            "heed::attend: SoftCap is 0.000000; expected a finite number above 0");
  EXPECT_NE(test::refusal([] { SoftCap{std::numeric_limits<float>::infinity()}.check({}); }), "");
}

}  // namespace
}  // namespace heed

// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/t5.hpp"

#include "block.hpp"

namespace heed {
namespace {

using test::refusal;

// The defaults of T5: 32 buckets, 128.
TEST(T5Bias, Buckets) {
  for (Index n = 0; n < 16; ++n) EXPECT_EQ(t5_bucket(n, 32, 128), n);
  const Index worked[][2] = {{16, 16},  {18, 16},  {19, 17},  {20, 17},  {31, 21}, {32, 21},
                             {64, 26},  {112, 30}, {113, 31}, {127, 31}, {128, 31}, {129, 31}};
  for (const auto& [distance, bucket] : worked) EXPECT_EQ(t5_bucket(distance, 32, 128), bucket);
  EXPECT_EQ(t5_bucket(std::numeric_limits<Index>::max(), 32, 128), 31);
}

TEST(T5Bias, BucketsBeginAtWholePowers) {
  // ln(n / 16) / ln(16) * 16 is an integer at each power of two.
  EXPECT_EQ(t5_bucket(32, 32, 256), 20);
  EXPECT_EQ(t5_bucket(31, 32, 256), 19);
  EXPECT_EQ(t5_bucket(64, 32, 256), 24);
  EXPECT_EQ(t5_bucket(63, 32, 256), 23);
  EXPECT_EQ(t5_bucket(128, 32, 256), 28);
  EXPECT_EQ(t5_bucket(24, 16, 72), 12);   // ln 3 / ln 9 * 8
  EXPECT_EQ(t5_bucket(23, 16, 72), 11);
  EXPECT_EQ(t5_bucket(100, 1, 1), 0);
  EXPECT_EQ(t5_bucket(1, 2, 2), 1);
}

TEST(T5Bias, BucketsNeverFall) {
  for (const Index buckets : {1, 2, 3, 8, 33, 64}) {
    for (const Index max_distance : {buckets / 2 + 1, buckets * 3, Index{5000}}) {
      Index last = 0;
      for (Index n = 0; n < 6000; ++n) {
        const Index bucket = t5_bucket(n, buckets, max_distance);
        ASSERT_LE(last, bucket);
        last = bucket;
      }
      EXPECT_EQ(last, buckets - 1);
    }
  }
}

TEST(T5Bias, IsReadPerHeadAndDistance) {
  support::Random random(4);
  std::vector<float> numbers(4 * 32);
  for (float& x : numbers) x = static_cast<float>(random.normal());
  for (const Index stacked : {1, 2}) {
    for (const Index max_distance : {20, 128, 1000}) {
      const T5Bias bias{.table = {numbers.data(), 1, 4, 32}, .max_distance = max_distance,
                        .scale = 2};
      const test::Block block(test::range(2000, 64 / stacked), stacked);
      auto state = bias.begin(block.rows);
      const auto positions = test::ascending(random, 0, 2048, 1);
      for (Index first = 2048 - 64; first >= 0; first -= 64) {
        Keys keys = test::keys_at(positions, first);
        keys.position += first;
        keys.count = 64;
        const auto found = test::tile_after(
            block, keys, [](Index, Index) { return 0.0; },
            [&](const Tile& tile) { bias.forward(tile, state); });
        test::expect_tile(
            found, block, keys,
            [&](Index lane, Index j) {
              const Index distance = std::max<Index>(block.rows.position[lane] - (first + j), 0);
              const Index at = block.rows.head[lane] * 32 + t5_bucket(distance, 32, max_distance);
              return 2 * static_cast<double>(numbers[static_cast<std::size_t>(at)]);
            },
            0);
      }
    }
  }
}

TEST(T5Bias, IsChecked) {
  const std::vector<float> numbers(64);
  Shape shape;
  shape.heads = 2;
  const auto said = [&](Index heads, Index max_distance, float scale = 1) {
    return refusal([&] {
      T5Bias{.table = {numbers.data(), 1, heads, 32}, .max_distance = max_distance, .scale = scale}
          .check(shape);
    });
  };
  EXPECT_EQ(said(2, 17), "");
  EXPECT_EQ(said(1, 128),
            "heed::attend: T5Bias has 1 table of [1, 32]; expected 1 of [q's heads 2, at least 1 "
            "bucket]");
  EXPECT_EQ(said(2, 16), "heed::attend: T5Bias.max_distance is 16; expected more than half of the "
                         "32 buckets");
  EXPECT_NE(said(2, 128, std::numeric_limits<float>::infinity()), "");
}

}  // namespace
}  // namespace heed

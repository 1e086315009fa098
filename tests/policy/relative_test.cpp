// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/relative.hpp"

#include "block.hpp"

namespace heed {
namespace {

using test::refusal;

constexpr Index kDim = 3;

std::vector<float> random_table(Index count, std::uint64_t seed) {
  support::Random random(seed);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& x : numbers) x = static_cast<float>(random.normal());
  return numbers;
}

// q . table[max(i - j, 0)] / sqrt(d) in double.
double expected_term(const Relative& relative, const test::Block& block, Index lane, Index key) {
  Index distance = std::max<Index>(block.rows.position[lane] - key, 0);
  if (distance >= relative.table.rows) {
    if (!relative.capped) return 0;
    distance = relative.table.rows - 1;
  }
  const float* vector = relative.table.row(block.rows.head[lane], distance);
  double dot = 0;
  for (Index d = 0; d < kDim; ++d) dot += block.q(lane, d) * static_cast<double>(vector[d]);
  return dot / std::sqrt(static_cast<double>(kDim));
}

// Walks all keys, newest tile first, with one state.
void expect_right(const Relative& relative, const test::Block& block,
                  const std::vector<Index>& positions) {
  auto state = relative.begin(block.rows);
  const auto count = static_cast<Index>(positions.size());
  for (Index first = (count - 1) / kKeys * kKeys; first >= 0; first -= kKeys) {
    Keys keys = test::keys_at(positions, first);
    keys.position += first;
    keys.count = std::min(kKeys, count - first);
    const auto found = test::tile_after(
        block, keys, [](Index, Index) { return 0.5; },
        [&](const Tile& tile) { relative.forward(tile, state); });
    test::expect_tile(
        found, block, keys,
        [&](Index lane, Index j) {
          return 0.5 + expected_term(relative, block, lane, keys.position[j]);
        },
        2e-6);
  }
}

TEST(Relative, EqualsTheFormula) {
  support::Random random(11);
  for (int round = 0; round < 60; ++round) {
    const Index stacked = random.pick<Index>({1, 2, 3});
    const Index n = random.pick<Index>({1, 2, 63, 64, 65, 200, 700});
    const Index tables = random.chance(0.5) ? 1 : stacked + 2;
    const auto numbers = random_table(tables * n * kDim, 5);
    const Relative relative{.table = {numbers.data(), tables, n, kDim},
                            .capped = random.chance(0.5)};
    const Index count = random.integer(1, kRows / stacked);
    const Index gap = random.pick<Index>({1, 1, 3, 50});
    const auto positions = test::ascending(random, -20, random.integer(1, 500), gap);
    const Index at = positions[static_cast<std::size_t>(random.integer(
        0, static_cast<Index>(positions.size()) - 1))];
    const test::Block block(test::ascending(random, at, count, random.pick<Index>({1, 1, 7})),
                            stacked, kDim, 3);
    expect_right(relative, block, positions);
    if (HasFatalFailure()) return;
  }
}

TEST(Relative, FarGapsWithinOneTile) {
  const Index far = Index{1} << 40;
  const std::vector<Index> positions{0, 1, far, far + 7, 2 * far};
  const auto numbers = random_table(9 * kDim, 5);
  for (const bool capped : {false, true}) {
    const Relative relative{.table = {numbers.data(), 1, 9, kDim}, .capped = capped};
    expect_right(relative, test::Block({2, far + 1, far + 8, 2 * far + 3}), positions);
  }
}

TEST(Relative, ALaneDoesNotDependOnItsBlock) {
  const auto numbers = random_table(50 * kDim, 5);
  const Relative relative{.table = {numbers.data(), 1, 50, kDim}};
  const test::Block many(test::range(60, 64));
  test::Block one(test::range(60, 1));
  const auto positions = test::range(0, 64);
  const Keys keys = test::keys_at(positions);
  const auto run = [&](const test::Block& block) {
    return test::tile_after(
        block, keys, [](Index, Index j) { return 1.0 / double(1 + j); },
        [&](const Tile& tile) {
          auto state = relative.begin(block.rows);
          relative.forward(tile, state);
        });
  };
  const auto found = run(many), alone = run(one);
  for (Index j = 0; j < kKeys; ++j) {
    const auto at = static_cast<std::size_t>(j * kRows);
    EXPECT_EQ(found[at], alone[at]);
  }
}

TEST(Relative, IsChecked) {
  const auto numbers = random_table(3 * 4 * kDim, 5);
  Shape shape;
  shape.heads = 6, shape.dim = kDim;
  EXPECT_EQ(refusal([&] { Relative{.table = {numbers.data(), 1, 12, kDim}}.check(shape); }), "");
  EXPECT_EQ(refusal([&] { Relative{.table = {numbers.data(), 3, 4, kDim}}.check(shape); }),
            "heed::attend: Relative has 3 tables; expected 1, or one per query head, 6");
  EXPECT_EQ(refusal([&] { Relative{.table = {numbers.data(), 1, 9, 4}}.check(shape); }),
            "heed::attend: Relative's table is [9, 4]; expected [at least 1, q's dim 3]");
  EXPECT_NE(refusal([&] { Relative{.table = {numbers.data(), 1, 0, kDim}}.check(shape); }), "");
}

}  // namespace
}  // namespace heed

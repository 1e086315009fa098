// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/rope.hpp"

#include "block.hpp"

namespace heed {
namespace {

using test::refusal;

const Rope kHalves{.pairing = Pairing::halves}, kNeighbours{.pairing = Pairing::neighbours};

Eigen::VectorXf encoded(const Rope& rope, Eigen::VectorXf x, Index position) {
  const auto table = rope.begin({&position, 1}, x.size());
  rope.encode(Vector(x.data(), x.size()), 0, table);
  return x;
}

Eigen::VectorXf random_vector(support::Random& random, Index dim) {
  Eigen::VectorXf x(dim);
  for (float& number : x) number = static_cast<float>(random.normal());
  return x;
}

// R23: the two pairings, by hand.
TEST(Rope, Pairings) {
  const Eigen::Vector4f x{1, 0, 0, 0};
  const float c = std::cos(1.0f), s = std::sin(1.0f);
  EXPECT_TRUE(encoded(kNeighbours, x, 1).isApprox(Eigen::Vector4f{c, s, 0, 0}));
  EXPECT_TRUE(encoded(kHalves, x, 1).isApprox(Eigen::Vector4f{c, 0, s, 0}));
}

// Queries and keys permuted together give the same products.
TEST(Rope, PairingsAreOnePermutationApart) {
  support::Random random(2);
  for (const Index dim : {2, 4, 6, 34, 64}) {
    const Eigen::VectorXf x = random_vector(random, dim);
    Eigen::VectorXf permuted(dim);
    const auto place = [&](Index i) { return i % 2 * (dim / 2) + i / 2; };
    for (Index i = 0; i < dim; ++i) permuted[place(i)] = x[i];
    const Eigen::VectorXf neighbours = encoded(kNeighbours, x, 37);
    const Eigen::VectorXf halves = encoded(kHalves, permuted, 37);
    for (Index i = 0; i < dim; ++i) EXPECT_NEAR(halves[place(i)], neighbours[i], 1e-6f);
  }
}

// R22. The table's own angles: double products of the position and double frequencies.
TEST(Rope, AnglesAreExactUpToPosition16Million) {
  const Rope rope{.theta = 1e4f, .pairing = Pairing::halves, .scaling = 1.5f};
  for (const Index first : {Index{0}, Index{2048}, Index{131072}, Index{1000000},
                            (Index{1} << 24) - 300}) {
    const auto positions = test::range(first, 300);
    const auto table = rope.begin(positions, 64);
    for (Index i = 0; i < 300; ++i) {
      for (Index pair = 0; pair < 32; ++pair) {
        const double angle =
            static_cast<double>(first + i) / 1.5 * std::pow(1e4, static_cast<double>(-pair) / 32);
        ASSERT_NEAR(static_cast<double>(table.cosine[i * 32 + pair]), std::cos(angle), 1e-7);
        ASSERT_NEAR(static_cast<double>(table.sine[i * 32 + pair]), std::sin(angle), 1e-7);
      }
    }
  }
  const Eigen::Vector2f x{1, 0};
  EXPECT_NE(encoded(kHalves, x, 256), encoded(kHalves, x, 257));
}

// Runs of neighbours are turned step by step; a list with gaps is not.
TEST(Rope, PositionsWithGaps) {
  support::Random random(3);
  const auto positions = test::ascending(random, -50, 500, 2);
  const auto table = kHalves.begin(positions, 8);
  for (Index i = 0; i < 500; ++i) {
    const auto alone = kHalves.begin({&positions[static_cast<std::size_t>(i)], 1}, 8);
    for (Index pair = 0; pair < 4; ++pair) {
      ASSERT_NEAR(table.cosine[i * 4 + pair], alone.cosine[pair], 6e-8f);
      ASSERT_NEAR(table.sine[i * 4 + pair], alone.sine[pair], 6e-8f);
    }
  }
}

TEST(Rope, ProductsDependOnTheDistanceAlone) {
  support::Random random(4);
  for (const Rope& rope : {kHalves, kNeighbours}) {
    const Eigen::VectorXf q = random_vector(random, 16), k = random_vector(random, 16);
    const float near = encoded(rope, q, 9).dot(encoded(rope, k, 2));
    const float far = encoded(rope, q, 100009).dot(encoded(rope, k, 100002));
    EXPECT_NEAR(near, far, 1e-5f);
    EXPECT_NEAR(encoded(rope, q, 777).norm(), q.norm(), 1e-5f);
  }
}

TEST(Rope, AdjointIsTheTranspose) {
  support::Random random(5);
  for (const Rope& rope : {kHalves, kNeighbours}) {
    const Eigen::VectorXf x = random_vector(random, 40), y = random_vector(random, 40);
    const Index position = 1234;
    const auto table = rope.begin({&position, 1}, 40);
    Eigen::VectorXf rx = x, ry = y;
    rope.encode(Vector(rx.data(), 40), 0, table);
    rope.encode_adjoint(Vector(ry.data(), 40), 0, table);
    EXPECT_NEAR(rx.dot(y), x.dot(ry), 2e-5f);
    rope.encode_adjoint(Vector(rx.data(), 40), 0, table);
    EXPECT_TRUE(rx.isApprox(x, 1e-6f));
  }
}

TEST(Rope, ComponentsPastTheWidthKeepTheirBits) {
  support::Random random(6);
  for (const Pairing pairing : {Pairing::halves, Pairing::neighbours}) {
    const Rope rope{.pairing = pairing, .width = 10};
    const Eigen::VectorXf x = random_vector(random, 33), y = encoded(rope, x, 5);
    EXPECT_EQ(x.tail(23), y.tail(23));
    const Eigen::VectorXf alone = encoded({.pairing = pairing}, x.head(10), 5);
    EXPECT_TRUE(y.head(10).isApprox(alone, 1e-6f));
  }
}

TEST(Rope, ScalingDividesPositions) {
  support::Random random(7);
  const Eigen::VectorXf x = random_vector(random, 8);
  const Rope scaled{.pairing = Pairing::halves, .scaling = 4};
  EXPECT_TRUE(encoded(scaled, x, 40).isApprox(encoded(kHalves, x, 10), 1e-6f));
}

TEST(Rope, IsChecked) {
  Shape shape;
  shape.dim = 7;
  const auto said = [&](const Rope& rope) { return refusal([&] { rope.check(shape); }); };
  EXPECT_EQ(said(kHalves),
            "heed::attend: Rope rotates 7 components; expected an even number up to q's dim 7");
  EXPECT_EQ(said({.pairing = Pairing::halves, .width = 6}), "");
  EXPECT_NE(said({.pairing = Pairing::halves, .width = 8}), "");
  EXPECT_NE(said({.pairing = Pairing::halves, .width = -2}), "");
  EXPECT_EQ(said({.theta = 0, .pairing = Pairing::halves, .width = 6}),
            "heed::attend: Rope.theta is 0.000000; expected a finite number above 0");
  EXPECT_NE(said({.pairing = Pairing::halves, .width = 6, .scaling = -1}), "");
}

}  // namespace
}  // namespace heed

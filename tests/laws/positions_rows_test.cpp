// SPDX-License-Identifier: Apache-2.0
//
// Public faults of other libraries, as tests: alignment, windows, positions.

#include "support/policies.hpp"

namespace support {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void expect_rows(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST(Positions, R13CausalIsBottomRightUnlessSaidOtherwise) {
  const World w = counting({1, 1, 1, 2, 5, 2, 1});
  expect_rows(column(w, attended(w, heed::causal)), {1.5, 2.0});
  expect_rows(column(w, attended(w, heed::causal, heed::top_left)), {0, 0.5});
}
TEST(Positions, R14QueriesBeforeAllKeysSeeNothing) {
  const World w = counting({1, 1, 1, 5, 2, 2, 1});
  const Outputs o = attended(w, heed::causal);
  expect_rows(column(w, o), {0, 0, 0, 0, 0.5});
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(o.lse[i] == -kInfinity, i < 3) << i;
}
TEST(Positions, R15OneQuerySeesAllCachedKeys) {
  const World w = counting({1, 1, 1, 1, 7, 2, 1});
  expect_rows(column(w, attended(w, heed::causal)), {3.0});
}
TEST(Positions, R16ChunkWithACacheDoesNotSeeItsFuture) {
  World w({1, 2, 1, 7, 7, 4, 4}, Filling::normal, 1);
  const Outputs whole = attended(w, heed::causal);
  const Slice chunk{0, 1, 4, 3, 7};
  const Outputs part = run(w, chunk, heed::pack(heed::causal));
  EXPECT_TRUE(same_bits(cut(w, whole, chunk), part));
  for (Index d = 0; d < 4; ++d) w.data.k[size(6 * 4 + d)] = w.data.v[size(6 * 4 + d)] = 50;
  const Outputs changed = run(w, chunk, heed::pack(heed::causal));
  for (const std::size_t row : {0u, 1u, 3u, 4u}) {   // rows 4 and 5 of both heads
    EXPECT_EQ(part.lse[row], changed.lse[row]);
    for (std::size_t d = 0; d < 4; ++d) EXPECT_EQ(part.out[row * 4 + d], changed.out[row * 4 + d]);
  }
  EXPECT_NE(part.lse[2], changed.lse[2]);
}
TEST(Positions, R17WindowCountsTheCurrentKey) {
  const World w = counting({1, 1, 1, 5, 5, 2, 1});
  expect_rows(column(w, attended(w, heed::causal & heed::Window{3})), {0, 0.5, 1, 2, 3});
  for (Index i = 0; i < 5; ++i) {   // one row at a time
    World one = counting({1, 1, 1, 1, 5, 2, 1});
    const Slice last{0, 1, 0, 1, i + 1};
    EXPECT_NEAR(run(one, last, heed::pack(heed::causal & heed::Window{3})).out[0],
                (std::vector<double>{0, 0.5, 1, 2, 3})[size(i)], 1e-6);
  }
}
TEST(Positions, R18WindowBelowOneIsRefused) {
  const World w = counting({1, 1, 1, 5, 5, 2, 1});
  for (const Index size : {Index{0}, Index{-1}, Index{-1000}}) {
    EXPECT_THROW(attended(w, heed::causal & heed::Window{size}), std::invalid_argument);
    EXPECT_THROW(attended(w, heed::causal & (heed::Window{size} | heed::Sinks{2})),
                 std::invalid_argument);
    EXPECT_THROW(attended(w, heed::causal & !heed::Window{size}), std::invalid_argument);
  }
  EXPECT_THROW(attended(w, heed::Sinks{-1}), std::invalid_argument);
}
TEST(Positions, R19AlibiOfTheLastRowIsExact) {
  const World w = counting({1, 1, 1, 3, 3, 2, 1});
  const std::vector<float> slope{0.5f};
  const Outputs o = attended(w, heed::causal, heed::Alibi{slope});
  expect_rows({o.weights.end() - 3, o.weights.end()}, {0.186324, 0.307196, 0.506480});
  EXPECT_NEAR(o.lse[2], 0.680270, 1e-6);
}
TEST(Positions, R20AlibiInDecodeIsThatOfPrefill) {
  const World w({1, 2, 1, 16, 16, 4, 4}, Filling::normal, 2);
  const std::vector<float> slopes{0.5f, 1.f}, none{0.f, 0.f};
  const Outputs whole = attended(w, heed::causal, heed::Alibi{slopes});
  EXPECT_TRUE(differs(whole.out, attended(w, heed::causal, heed::Alibi{none}).out, 0.1));
  for (Index i = 0; i < 16; ++i) {
    const Slice step{0, 1, i, 1, i + 1};
    const Outputs one = run(w, step, heed::pack(heed::causal, heed::Alibi{slopes}));
    EXPECT_TRUE(same_bits(cut(w, whole, step), one)) << i;
  }
}
TEST(Positions, R21AlibiSlopesOfAnyNumberOfHeads) {
  EXPECT_EQ(heed::alibi_slopes(6),
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  const auto eight = heed::alibi_slopes(8), twelve = heed::alibi_slopes(12);
  EXPECT_EQ(eight.front(), 0.5f);
  EXPECT_EQ(eight.back(), 0x1p-8f);
  EXPECT_NEAR(twelve[8], 0.7071068, 1e-7);
  EXPECT_NEAR(twelve[11], 0.0883883, 1e-7);
  for (Index heads = 1; heads <= 40; ++heads) {
    const auto found = heed::alibi_slopes(heads);
    const auto expected = oracle::alibi_slopes(heads);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t h = 0; h < found.size(); ++h) EXPECT_FLOAT_EQ(found[h], float(expected[h]));
  }
}

// The rotation of the pair (1, 0) is its cosine and sine.
TEST(Positions, R22RotationAnglesAreThoseOfDouble) {
  constexpr Index kDim = 64;
  std::vector<Index> positions;
  for (Index p = 0; p < 3000; ++p) positions.push_back(p);
  for (const Index start : {Index{131072}, Index{1000000}, (Index{1} << 24) - 300}) {
    for (Index p = 0; p < 300; ++p) positions.push_back(start + p);
  }
  for (const float theta : {1e4f, 5e5f}) {
    const heed::Rope rope{.theta = theta, .pairing = heed::Pairing::neighbours};
    const auto table = rope.begin(positions, kDim);
    double worst = 0;
    std::vector<float> x(kDim);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      for (Index d = 0; d < kDim; ++d) x[size(d)] = d % 2 == 0;
      rope.encode(heed::Vector(x.data(), kDim), static_cast<Index>(i), table);
      for (Index n = 0; n < kDim / 2; ++n) {
        const double angle =
            static_cast<double>(positions[i]) *
            std::pow(static_cast<double>(theta), -2.0 * static_cast<double>(n) / kDim);
        worst = std::max(worst, std::abs(static_cast<double>(x[size(2 * n)]) - std::cos(angle)));
        worst =
            std::max(worst, std::abs(static_cast<double>(x[size(2 * n + 1)]) - std::sin(angle)));
      }
    }
    std::printf("rotation, worst error of a cosine or sine: %.3g\n", worst);
    EXPECT_LE(worst, 1e-7);
  }
}
TEST(Positions, R22NeighbouringPositionsDiffer) {
  const std::vector<Index> positions{256, 257};
  const heed::Rope rope{.pairing = heed::Pairing::halves};
  const auto table = rope.begin(positions, 2);
  std::vector<float> a{1, 0}, b{1, 0};
  rope.encode(heed::Vector(a.data(), 2), 0, table);
  rope.encode(heed::Vector(b.data(), 2), 1, table);
  EXPECT_GT(std::abs(a[0] - b[0]), 0.1f);
}

std::vector<float> rotated(std::vector<float> x, const heed::Rope& rope, bool adjoint = false) {
  const std::vector<Index> one{1};
  const auto n = static_cast<Index>(x.size());
  const auto table = rope.begin(one, n);
  if (adjoint) {
    rope.encode_adjoint(heed::Vector(x.data(), n), 0, table);
  } else {
    rope.encode(heed::Vector(x.data(), n), 0, table);
  }
  return x;
}
TEST(Positions, R23PairingsAreWhatTheirNamesSay) {
  const float c = std::cos(1.f), s = std::sin(1.f);
  const auto neighbours = rotated({1, 0, 0, 0}, {.pairing = heed::Pairing::neighbours});
  const auto halves = rotated({1, 0, 0, 0}, {.pairing = heed::Pairing::halves});
  expect_rows(neighbours, {double{c}, double{s}, 0, 0});
  expect_rows(halves, {double{c}, 0, double{s}, 0});
}
TEST(Positions, R23ComponentsPastTheWidthKeepTheirBits) {
  for (const auto pairing : {heed::Pairing::neighbours, heed::Pairing::halves}) {
    for (const Index width : {2, 4, 6}) {
      std::vector<float> x;
      for (int d = 0; d < 19; ++d) x.push_back(0.1f * static_cast<float>(d + 1));
      const auto y = rotated(x, {.pairing = pairing, .width = width});
      for (std::size_t d = 0; d < 19; ++d) EXPECT_EQ(x[d] == y[d], d >= size(width)) << d;
    }
  }
}
TEST(Positions, R23ScoresAgreeAfterPermutingBoth) {
  // halves on (0, 2, 4, 1, 3, 5) is neighbours on (0, 1, 2, 3, 4, 5).
  World a({1, 1, 1, 12, 12, 6, 3}, Filling::normal, 3), b = a;
  const Index order[] = {0, 2, 4, 1, 3, 5};
  for (Index row = 0; row < 12; ++row) {
    for (Index d = 0; d < 6; ++d) {
      b.data.q[size(row * 6 + d)] = a.data.q[size(row * 6 + order[d])];
      b.data.k[size(row * 6 + d)] = a.data.k[size(row * 6 + order[d])];
    }
  }
  const Outputs x = attended(a, heed::causal, heed::Rope{.pairing = heed::Pairing::neighbours});
  const Outputs y = attended(b, heed::causal, heed::Rope{.pairing = heed::Pairing::halves});
  for (std::size_t i = 0; i < x.out.size(); ++i) EXPECT_NEAR(x.out[i], y.out[i], 3e-6);
  EXPECT_TRUE(differs(x.out, attended(b, heed::causal,
                                      heed::Rope{.pairing = heed::Pairing::neighbours}).out, 1e-2));
}
TEST(Positions, RotationKeepsTheNormAndItsAdjointTurnsBack) {
  for (const auto pairing : {heed::Pairing::neighbours, heed::Pairing::halves}) {
    const std::vector<float> x{1, -2, 3, 0.5f, 4, -1, 0.25f, 2, -3, 1.5f};
    const heed::Rope rope{.theta = 50.f, .pairing = pairing};
    std::vector<float> y = rotated(x, rope);
    double before = 0, after = 0;
    for (std::size_t d = 0; d < x.size(); ++d) {
      before += static_cast<double>(x[d] * x[d]);
      after += static_cast<double>(y[d] * y[d]);
    }
    EXPECT_NEAR(before, after, 1e-5);
    const auto back = rotated(y, rope, true);
    for (std::size_t d = 0; d < x.size(); ++d) EXPECT_NEAR(x[d], back[d], 1e-6);
  }
}

// Lengths 2 and 5, padded on the left to 5 with NaN: each entry equals its own unpadded run.
TEST(Positions, R26LeftPaddedEntriesEqualTheirOwnRuns) {
  const Index lengths[] = {2, 5};
  const World w({2, 2, 1, 5, 5, 4, 4}, Filling::normal, 4);
  World padded = w;
  std::vector<Index> positions;
  std::array<bool, 2 * 5 * 5> keep{};
  for (Index b = 0; b < 2; ++b) {
    const Index pad = 5 - lengths[b];
    for (Index t = 0; t < 5; ++t) {
      positions.push_back(t - pad);
      for (Index j = 0; j < 5; ++j) keep[size((b * 5 + t) * 5 + j)] = j >= pad;
      for (Index d = 0; d < 4 && t < pad; ++d) {
        padded.data.k[size((b * 5 + t) * 4 + d)] = std::nanf("");
        padded.data.v[size((b * 5 + t) * 4 + d)] = std::nanf("");
      }
    }
  }
  const heed::DenseMask valid{heed::View<const bool>(keep.data(), {2, 1, 5, 5})};
  const heed::Rope rope{.pairing = heed::Pairing::halves};
  const Outputs found = attended(padded, heed::causal, valid, rope,
                                 heed::Positions{.q = positions, .k = positions});
  for (Index b = 0; b < 2; ++b) {
    const Index n = lengths[b], pad = 5 - n;
    World own({1, 2, 1, n, n, 4, 4}, Filling::equal, 0);
    for (Index t = 0; t < n; ++t) {
      for (Index d = 0; d < 4; ++d) {
        for (Index h = 0; h < 2; ++h) {
          own.data.q[size((h * n + t) * 4 + d)] =
              w.data.q[size(((b * 2 + h) * 5 + pad + t) * 4 + d)];
        }
        own.data.k[size(t * 4 + d)] = w.data.k[size((b * 5 + pad + t) * 4 + d)];
        own.data.v[size(t * 4 + d)] = w.data.v[size((b * 5 + pad + t) * 4 + d)];
      }
    }
    EXPECT_TRUE(same_bits(cut(padded, found, {b, 1, pad, n, 5}),
                          cut(own, attended(own, heed::causal, rope), own.whole())));
  }
}

TEST(Positions, PositionsMustAscend) {
  const World w = counting({1, 1, 1, 2, 3, 2, 1});
  const std::vector<Index> q{5, 6}, k{1, 2, 3}, equal{1, 1, 3}, falling{3, 2, 1}, few{1, 2};
  EXPECT_NO_THROW(attended(w, heed::causal, heed::Positions{.q = q, .k = k}));
  for (const auto& bad : {equal, falling, few}) {
    EXPECT_THROW(attended(w, heed::causal, heed::Positions{.q = q, .k = bad}),
                 std::invalid_argument);
  }
}
TEST(Positions, GapsAreDistances) {
  const World w = counting({1, 1, 1, 1, 3, 2, 1});
  const std::vector<Index> q{10}, k{1, 7, 10};
  expect_rows(column(w, attended(w, heed::causal & heed::Window{4},
                                 heed::Positions{.q = q, .k = k})), {1.5});
  expect_rows(column(w, attended(w, heed::causal & (heed::Window{1} | heed::Sinks{2}),
                                 heed::Positions{.q = q, .k = k})), {1.0});
}

}  // namespace
}  // namespace support

// SPDX-License-Identifier: Apache-2.0
//
// Public faults of other libraries, as tests: masks and the softmax. The ids are those of the
// project's log of reports.

#include <bit>
#include <cstring>

#include "support/policies.hpp"

namespace support {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
using Keep = Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// One head of width 1 whose logits are the keys, seen by q_len queries of 1.
World logits(const std::vector<float>& k, const std::vector<float>& v, Index q_len = 1) {
  World w({1, 1, 1, q_len, static_cast<Index>(k.size()), 1, 1}, Filling::equal, 0);
  std::fill(w.data.q.begin(), w.data.q.end(), 1.f);
  w.data.k = k;
  w.data.v = v;
  return w;
}

TEST(Masks, R01FullyMaskedRowIsZero) {
  const World whole({1, 1, 1, 4, 4, 2, 2}, Filling::normal, 1);
  Keep keep = Keep::Constant(4, 4, true);
  keep.row(1).setConstant(false);
  const Outputs a = attended(whole, heed::DenseMask{keep});
  EXPECT_EQ(a.out[2], 0.f);
  EXPECT_EQ(a.out[3], 0.f);
  EXPECT_EQ(a.lse[1], -kInfinity);
  EXPECT_EQ(a.entropy[1], 0.f);

  World without = whole;
  without.shape.q_len = 3;
  without.data.q.erase(without.data.q.begin() + 2, without.data.q.begin() + 4);
  const Keep rest = Keep::Constant(3, 4, true);
  const Outputs b = attended(without, heed::DenseMask{rest});
  const auto row = [](const Outputs& o, std::ptrdiff_t i) {
    return std::vector<float>{o.out[size(2 * i)], o.out[size(2 * i + 1)], o.lse[size(i)]};
  };
  EXPECT_TRUE(same_bits(row(a, 0), row(b, 0)));
  EXPECT_TRUE(same_bits(row(a, 2), row(b, 1)));
  EXPECT_TRUE(same_bits(row(a, 3), row(b, 2)));
}

// The first tiles of late rows are empty under a window.
TEST(Masks, R03WindowOfLongSequenceHasNoNaN) {
  for (const Index t : {600, 63, 64, 65, 131}) {
    const World w = counting({1, 1, 1, t, t, 2, 1});
    const std::vector<float> rows = column(w, attended(w, heed::causal & heed::Window{10}));
    for (Index i = 0; i < t; ++i) {
      const double first = static_cast<double>(std::max<Index>(0, i - 9));
      ASSERT_NEAR(rows[size(i)], (first + static_cast<double>(i)) / 2, 1e-4) << "row " << i;
    }
  }
}

TEST(Masks, R04NaNInAMaskedKeyDoesNotLeak) {
  for (const Index t : {4, 20, 70}) {
    World clean({1, 2, 1, t, t, 5, 6}, Filling::normal, 2);
    Keep keep = Keep::Constant(t, t, true);
    keep.col(t / 2).setConstant(false);
    for (Index d = 0; d < 5; ++d) clean.data.k[size(t / 2 * 5 + d)] = 0;
    for (Index d = 0; d < 6; ++d) clean.data.v[size(t / 2 * 6 + d)] = 0;
    const Outputs expected = attended(clean, heed::DenseMask{keep});
    for (const float poison : {std::nanf(""), kInfinity, -kInfinity, 1e38f}) {
      World dirty = clean;
      for (Index d = 0; d < 5; ++d) dirty.data.k[size(t / 2 * 5 + d)] = poison;
      for (Index d = 0; d < 6; ++d) dirty.data.v[size(t / 2 * 6 + d)] = poison;
      EXPECT_TRUE(same_bits(expected, attended(dirty, heed::DenseMask{keep}))) << poison;
    }
  }
}

// Unused slots at the end, never cleared; also with a bias added to whatever they give.
TEST(Masks, R05R06UnusedSlotsAreNeverRead) {
  World zeros({1, 4, 2, 3, 128, 8, 8}, Filling::normal, 3), dirty = zeros;
  const std::vector<Index> used{32};
  for (Index h = 0; h < 2; ++h) {
    const auto slack = size((h * 128 + 32) * 8), n = size(96 * 8);
    for (auto* data : {&zeros.data.k, &zeros.data.v}) {
      std::fill_n(data->begin() + static_cast<std::ptrdiff_t>(slack), n, 0.f);
    }
    for (auto* data : {&dirty.data.k, &dirty.data.v}) {
      std::memset(data->data() + slack, 0xff, n * sizeof(float));
    }
  }
  TableOf table;
  Random r(1);
  table.make(r, 1, 200, 8, 0.5);
  const heed::Lengths lengths{.q = {}, .kv = used};
  const heed::Relative relative{.table = table.view()};
  EXPECT_TRUE(same_bits(attended(zeros, heed::causal, lengths),
                        attended(dirty, heed::causal, lengths)));
  EXPECT_TRUE(same_bits(attended(zeros, heed::causal, lengths, heed::Alibi{}, relative),
                        attended(dirty, heed::causal, lengths, heed::Alibi{}, relative)));
  EXPECT_TRUE(same_bits(attended(zeros, heed::causal, lengths, heed::Cope{table.view()}),
                        attended(dirty, heed::causal, lengths, heed::Cope{table.view()})));
}

TEST(Masks, R07VeryNegativeLogitsAreNotHidden) {
  const World w = logits({-60000, -60001, -60002}, {1, 2, 3});
  const Outputs o = attended(w, heed::Scale{1});
  EXPECT_NEAR(o.out[0], 1.4247896, 2e-6);
  EXPECT_NEAR(o.lse[0], -59999.5923940, 0.005);
  const Outputs far = attended(logits({-1e30f, -1e30f, -1e30f}, {1, 2, 3}), heed::Scale{1});
  EXPECT_FLOAT_EQ(far.out[0], 2);
}

TEST(Masks, R08TwoMasksAreTheirLogicalAnd) {
  const World w({1, 2, 1, 40, 40, 4, 4}, Filling::normal, 4);
  Keep padding = Keep::Constant(40, 40, true), both = padding;
  padding.rightCols(9).setConstant(false);
  for (Index i = 0; i < 40; ++i) {
    for (Index j = 0; j < 40; ++j) both(i, j) = j < 31 && j <= i;
  }
  EXPECT_TRUE(same_bits(attended(w, heed::DenseMask{both}),
                        attended(w, heed::causal, heed::DenseMask{padding})));
}
TEST(Masks, R08LowestFloatAsABiasIsDataNotAMask) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  World w = counting({1, 1, 1, 3, 5, 2, 1});
  const RowMajor bias = RowMajor::Constant(3, 5, kLowest);
  const Outputs o = attended(w, heed::Bias{bias});
  for (const float x : o.out) EXPECT_FLOAT_EQ(x, 2);
  for (const float x : o.weights) EXPECT_FLOAT_EQ(x, 0.2f);
  for (const float x : o.lse) EXPECT_EQ(x, kLowest);
}

TEST(Masks, R09InfiniteLogitMakesItsRowNaNAndNoOther) {
  World w = logits({0, 0, kInfinity}, {1, 2, 3}, 3);
  const Outputs o = attended(w, heed::causal, heed::Scale{1});
  EXPECT_FLOAT_EQ(o.out[0], 1);
  EXPECT_FLOAT_EQ(o.out[1], 1.5f);
  EXPECT_TRUE(std::isnan(o.out[2]));
  EXPECT_TRUE(std::isnan(o.lse[2]));
}

// All -inf, one +inf, two +inf, one NaN, all NaN, normal: by a bias, so that logits are exact.
TEST(Masks, R10R12SpecialRowsHaveTheOraclesClass) {
  for (Index t = 1; t <= 33; ++t) {
    World w = counting({1, 1, 1, 6, t, 2, 1});
    RowMajor bias = RowMajor::Zero(6, t);
    bias.row(0).setConstant(-kInfinity);
    bias(1, t - 1) = kInfinity;
    bias(2, 0) = bias(2, t / 2) = kInfinity;
    bias(3, t / 3) = std::nanf("");
    bias.row(4).setConstant(std::nanf(""));
    const Outputs o = attended(w, heed::Bias{bias});
    EXPECT_EQ(o.out[0], 0.f) << t;
    EXPECT_EQ(o.lse[0], -kInfinity) << t;
    EXPECT_EQ(o.entropy[0], 0.f) << t;
    for (std::size_t row = 1; row < 5; ++row) {
      EXPECT_TRUE(std::isnan(o.out[row])) << "row " << row << " of " << t << " keys";
      EXPECT_TRUE(std::isnan(o.lse[row])) << "row " << row << " of " << t << " keys";
    }
    EXPECT_NEAR(o.out[5], static_cast<double>(t - 1) / 2, 1e-5) << t;
  }
}
// R01 for every remainder of keys.
TEST(Masks, R12EmptyRowIsZeroForEveryRemainder) {
  for (Index t = 1; t <= 33; ++t) {
    const World w({1, 1, 1, 3, t, 3, 3}, Filling::normal, static_cast<std::uint64_t>(t));
    Keep keep = Keep::Constant(3, t, true);
    keep.row(1).setConstant(false);
    const Outputs o = attended(w, heed::DenseMask{keep});
    for (const std::size_t d : {3u, 4u, 5u}) EXPECT_EQ(o.out[d], 0.f) << t;
    EXPECT_EQ(o.lse[1], -kInfinity) << t;
    EXPECT_TRUE(std::isfinite(o.lse[0]) && std::isfinite(o.lse[2])) << t;
  }
}

TEST(Masks, R11LargeLogitsDoNotOverflow) {
  const Outputs o = attended(logits({90, 2, -2}, {1, 2, 3}), heed::Scale{1});
  EXPECT_EQ(o.out[0], 1.f);
  EXPECT_EQ(o.weights[0], 1.f);
  for (const float x : {88.7f, 1e4f, 3e38f}) {
    const Outputs p = attended(logits({x, -x, 0}, {1, 2, 3}), heed::Scale{1});
    EXPECT_EQ(p.out[0], 1.f) << x;
    EXPECT_EQ(p.lse[0], x) << x;
    const Outputs n = attended(logits({-x, -x, -x}, {1, 2, 3}), heed::Scale{1});
    EXPECT_FLOAT_EQ(n.out[0], 2) << x;
    EXPECT_TRUE(std::isfinite(n.lse[0])) << x;
  }
}
TEST(Masks, R11MinimumOfAllLogitsIsNotAStartingMaximum) {
  const Outputs o = attended(logits({-90, -91}, {1, 2}), heed::Scale{1});
  EXPECT_NEAR(o.out[0], 1.2689414, 1e-6);
  EXPECT_NEAR(o.lse[0], -89.6867383, 2e-5);
}

// C3: a NaN query is a NaN row, and only that row; never quietly finite. NaNs of every kind: what
// uninitialised memory or a byte fill of 0xff gives has a payload, and bits may be added to it.
const std::uint32_t kNaNs[] = {0x7fc00000u, 0xffc00000u, 0x7fc00001u, 0xffffffffu, 0x7fffffffu,
                               0x7f800001u, 0x7fc001ffu, 0xffc000ffu, 0x7fd55555u};

TEST(Masks, NaNQueryIsANaNRow) {
  for (const std::uint32_t nan : kNaNs) {
    World w({1, 2, 1, 5, 9, 4, 4}, Filling::normal, 6);
    w.data.q[size(2 * 4)] = std::bit_cast<float>(nan);   // head 0, row 2
    const Outputs o = attended(w, heed::causal);
    for (std::size_t row = 0; row < 10; ++row) {
      for (std::size_t d = 0; d < 4; ++d) {
        EXPECT_EQ(std::isnan(o.out[row * 4 + d]), row == 2) << std::hex << nan;
      }
      EXPECT_EQ(std::isnan(o.lse[row]), row == 2) << std::hex << nan;
    }
  }
}
TEST(Masks, VisibleNaNKeyMakesNaNRows) {
  for (const std::uint32_t nan : kNaNs) {
    for (const std::size_t at : {0u, 3u, 8u}) {   // key
      World w({1, 1, 1, 9, 9, 4, 4}, Filling::normal, 6);
      w.data.k[at * 4 + 1] = std::bit_cast<float>(nan);
      const Outputs o = attended(w, heed::causal);
      for (std::size_t row = 0; row < 9; ++row) {
        for (std::size_t d = 0; d < 4; ++d) {
          EXPECT_EQ(std::isnan(o.out[row * 4 + d]), row >= at) << std::hex << nan;
        }
        EXPECT_EQ(std::isnan(o.lse[row]), row >= at) << std::hex << nan;
      }
    }
  }
}
TEST(Masks, VisibleNaNValueIsANaNOutput) {
  World w({1, 1, 1, 4, 4, 4, 3}, Filling::normal, 7);
  w.data.v[size(2 * 3 + 1)] = std::nanf("");   // key 2, column 1
  const Outputs o = attended(w, heed::causal);
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t d = 0; d < 3; ++d) {
      EXPECT_EQ(std::isnan(o.out[row * 3 + d]), row >= 2 && d == 1) << row << ", " << d;
    }
  }
}

}  // namespace
}  // namespace support

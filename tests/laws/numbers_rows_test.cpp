// SPDX-License-Identifier: Apache-2.0
//
// Public faults of other libraries, as tests: merging, accumulators, precision. CoPE's positions
// are read through a table that grows by 1 per row: with v_j = 1 at one key only, or through lse.

#include <cfenv>

#include "support/policies.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace support {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Numbers, R46LseOfTwoEqualLogitsIsLn2) {
  World w({1, 1, 1, 1, 2, 3, 1}, Filling::equal, 0);
  std::fill(w.data.q.begin(), w.data.q.end(), 0.f);
  const Outputs o = attended(w, heed::causal);
  EXPECT_NEAR(o.lse[0], 0.6931472, 1e-7);
  EXPECT_NEAR(o.entropy[0], 0.6931472, 1e-6);
}
TEST(Numbers, R48LongSumsOfEqualKeysNeitherOverflowNorStall) {
  for (const float value : {30.f, 1.f}) {
    for (const Index t : {Index{4096}, Index{100000}}) {
      World w({1, 1, 1, 1, t, 1, 2}, Filling::equal, 0);
      std::fill(w.data.v.begin(), w.data.v.end(), value);
      const Outputs o = attended(w, heed::causal);
      EXPECT_NEAR(o.out[0], value, value * 1e-5) << t;
      EXPECT_NEAR(o.lse[0], 0.125 + std::log(static_cast<double>(t)), 1e-5) << t;
      EXPECT_NEAR(o.entropy[0], std::log(static_cast<double>(t)), 1e-4) << t;
    }
  }
}
TEST(Numbers, R49LogitsBeyond16BitsAreRight) {
  World w({1, 1, 1, 1, 2, 128, 1}, Filling::equal, 0);
  std::fill(w.data.q.begin(), w.data.q.end(), 32.f);
  std::fill(w.data.k.begin(), w.data.k.end(), 32.f);
  const Outputs o = attended(w, heed::causal);
  EXPECT_NEAR(o.lse[0], 131072 / std::sqrt(128.0) + std::log(2),
              0.02);  // 20 units in the last place
}

// What one query gives the oldest key as a position: gates[j] of key j, newest last. The logits
// that make the gates, then a table whose row n adds n, in form A with q = 1 and dim 1 (the scale
// is 1): the weight of a key is e^(logit + position) over the sum, so logit + position of the
// oldest key is ln weight + lse.
double oldest_position(const std::vector<float>& logits, Index rows) {
  const auto n = static_cast<Index>(logits.size());
  std::vector<float> q{1.f}, v(size(n), 0.f), table, out(1), lse(1);
  v[0] = 1;
  // Rows of -n: far keys have small positions' exponents, so the oldest key does not vanish.
  for (Index row = 0; row < rows; ++row) table.push_back(0.01f * static_cast<float>(row));
  heed::Into into;
  into.out = {out.data(), {1, 1, 1, 1}};
  into.lse = {lse.data(), {1, 1, 1}};
  heed::attend(into, heed::View<const float>(q.data(), {1, 1, 1, 1}),
               heed::View<const float>(logits.data(), {1, 1, n, 1}),
               heed::View<const float>(v.data(), {1, 1, n, 1}), heed::causal,
               heed::Cope{heed::TableView(table.data(), 1, rows, 1)});
  return 100 * (std::log(static_cast<double>(out[0])) + static_cast<double>(lse[0]) -
                static_cast<double>(logits[0]));
}
// The carry is the position itself: what all gates of the row add up to.
std::array<double, 2> gate_sum(const std::vector<float>& logits, Index rows) {
  const auto n = static_cast<Index>(logits.size());
  std::vector<float> q{1.f}, v(size(n), 0.f), table(size(rows)), out(1), carry(2);
  heed::Into into;
  into.out = {out.data(), {1, 1, 1, 1}};
  into.carry = {carry.data(), {1, 1, 1, 2}};
  heed::attend(into, heed::View<const float>(q.data(), {1, 1, 1, 1}),
               heed::View<const float>(logits.data(), {1, 1, n, 1}),
               heed::View<const float>(v.data(), {1, 1, n, 1}), heed::causal,
               heed::Cope{heed::TableView(table.data(), 1, rows, 1)});
  return {static_cast<double>(carry[0]), static_cast<double>(carry[1])};
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
float logit_of(double gate) { return static_cast<float>(std::log(gate / (1 - gate))); }

TEST(Numbers, R50ManySmallGatesAddUp) {
  const std::vector<float> logits(640000, logit_of(1e-4));
  const double expected = 640000 * sigmoid(static_cast<double>(logits[0]));   // 64.0
  const auto sum = gate_sum(logits, 100);
  std::printf("640,000 gates of 1e-4: %.7f + %.3g, in double %.7f\n", sum[0], sum[1], expected);
  EXPECT_NEAR(expected, 64, 1e-3);
  EXPECT_NEAR(sum[0] + sum[1], expected, 1e-3);
}
TEST(Numbers, R50GateSumsOfEveryLengthAreRight) {
  for (const double gate : {1e-4, 1e-3, 0.01, 0.3, 0.5, 0.99}) {
    for (const Index n : {1, 63, 64, 65, 1000, 2000, 2048, 4096, 100000}) {
      const std::vector<float> logits(size(n), logit_of(gate));
      const double expected = static_cast<double>(n) * sigmoid(static_cast<double>(logits[0]));
      const Index rows = static_cast<Index>(expected) + 3;
      const auto sum = gate_sum(logits, rows);
      // Equal gates are the worst case: within a tile every addition rounds the same way.
      ASSERT_NEAR(sum[0] + sum[1], expected, std::max(1e-3, 1e-6 * expected))
          << gate << " x " << n;
    }
  }
}
TEST(Numbers, R50TheOldestKeysPositionIsRight) {
  for (const Index n : {1, 64, 65, 200, 2000}) {
    const std::vector<float> logits(size(n), logit_of(0.02));
    const double expected = static_cast<double>(n) * sigmoid(static_cast<double>(logits[0]));
    EXPECT_NEAR(oldest_position(logits, 100), expected, 2e-3 + 2e-4 * expected) << n;
  }
}

// R51: the 60th newest key behind 65,536 random gates: its position is that of the newest 60 alone.
TEST(Numbers, R51PositionsOfNewKeysDoNotFeelOldOnes) {
  Random random(run_seed());
  std::vector<float> logits(65536);
  for (float& x : logits) x = static_cast<float>(random.normal());
  double expected = 0;
  for (std::size_t j = logits.size() - 60; j < logits.size(); ++j) {
    expected += sigmoid(static_cast<double>(logits[j]));
  }
  // Older keys hidden by a window: their gates are 0, and the row's sum is the 60th key's position.
  const auto n = static_cast<Index>(logits.size());
  std::vector<float> q{1.f}, v(size(n), 0.f), table(40000), out(1), carry(2);
  heed::Into into;
  into.out = {out.data(), {1, 1, 1, 1}};
  into.carry = {carry.data(), {1, 1, 1, 2}};
  const heed::View<const float> k(logits.data(), {1, 1, n, 1}), values(v.data(), {1, 1, n, 1});
  heed::attend(into, heed::View<const float>(q.data(), {1, 1, 1, 1}), k, values,
               heed::causal & heed::Window{60},
               heed::Cope{heed::TableView(table.data(), 1, 40000, 1)});
  EXPECT_NEAR(static_cast<double>(carry[0]) + static_cast<double>(carry[1]), expected, 1e-4);
  // And with all keys there, through its weight: the table is 0 but between rows 20 and 40.
  for (Index row = 0; row < 40000; ++row) {
    table[size(row)] = static_cast<float>(std::clamp<Index>(row, 20, 40) - 20) * 0.5f;
  }
  v[size(n - 60)] = 1;
  std::vector<float> lse(1);
  into.carry = {};
  into.lse = {lse.data(), {1, 1, 1}};
  heed::attend(into, heed::View<const float>(q.data(), {1, 1, 1, 1}), k, values, heed::causal,
               heed::Cope{heed::TableView(table.data(), 1, 40000, 1)});
  const double position = 20 + 2 * (std::log(static_cast<double>(out[0])) +
                                    static_cast<double>(lse[0]) -
                                    static_cast<double>(logits[size(n - 60)]));
  EXPECT_GT(expected, 20);
  EXPECT_LT(expected, 40);
  EXPECT_NEAR(position, expected, 1e-4);
}

TEST(Numbers, R52NaNAndHugeLogitsNeverBecomeAnIndex) {
  for (const Index rows : {1, 2, 3}) {   // p_max 0, 1, 2
    std::vector<float> table(size(rows * 2), 0.5f);
    for (const float poison : {std::nanf(""), kInfinity, 3e38f, -3e38f, -kInfinity}) {
      for (const Index at : {0, 5, 69, 99}) {
        World w({1, 1, 1, 100, 100, 2, 3}, Filling::normal, 5);
        w.data.k[size(at * 2)] = poison;
        w.data.k[size(at * 2 + 1)] = 0;
        const Outputs o =
            attended(w, heed::causal, heed::Cope{heed::TableView(table.data(), 1, rows, 2)});
        for (Index i = 0; i < 100; ++i) {
          const bool sees = i >= at;
          if (std::isnan(poison)) {
            ASSERT_EQ(std::isnan(o.out[size(i * 3)]), sees) << "row " << i << ", key " << at;
          } else if (!sees) {
            ASSERT_TRUE(std::isfinite(o.out[size(i * 3)])) << "row " << i << ", key " << at;
          }
        }
      }
    }
  }
}
TEST(Numbers, R52SaturatedGatesSitOnIntegers) {
  // Gates exactly 1 (logit 40) and exactly 0 (logit -200).
  for (const Index rows : {1, 2, 3, 50, 200}) {
    World w({1, 1, 1, 130, 130, 1, 1}, Filling::equal, 0);
    std::fill(w.data.q.begin(), w.data.q.end(), 1.f);
    for (std::size_t j = 0; j < 130; ++j) w.data.k[j] = j % 3 == 0 ? 40.f : -200.f;
    for (std::size_t j = 0; j < 130; ++j) w.data.v[j] = static_cast<float>(j);
    Described<Causal, Coped<false, true>> described(w, 1);
    TableOf table;
    Random r(static_cast<std::uint64_t>(rows));
    table.make(r, 1, rows, 1, 1);
    oracle::Case c = w.oracle_case();
    Causal{}.describe(c);
    c.scores.push_back(oracle::Cope{.table = table.described(), .gate_keys = {}});
    const Verdict verdict = judge(attended(w, heed::causal, heed::Cope{table.view()}), c);
    EXPECT_TRUE(verdict.passed()) << rows << " rows: " << verdict.ratio << ": " << verdict.where;
  }
}

#if defined(__SSE__)
TEST(Numbers, R56ControlBitsAreAsBefore) {
  const World w({1, 2, 1, 70, 70, 8, 8}, Filling::denormal, 1);
  const unsigned before = _mm_getcsr() & ~0x3fu;   // without the sticky flags
  for (const unsigned mode : {before, before | 0x8040u}) {   // also flush-to-zero, on both sides
    _mm_setcsr(mode);
    attended(w, heed::causal);
    EXPECT_EQ(_mm_getcsr() & ~0x3fu, mode);
  }
  _mm_setcsr(before);
  for (const Index threads : {2, 4}) {
    run(w, w.whole(), heed::pack(heed::causal), {threads});
    EXPECT_EQ(_mm_getcsr() & ~0x3fu, before);
  }
}
#endif
TEST(Numbers, R56DenormalKeysAndValuesAreData) {
  World w({1, 1, 1, 1, 2, 1, 1}, Filling::equal, 0);
  w.data.q = {1e38f};
  w.data.k = {1e-41f, 0};
  w.data.v = {1e-41f, 3e-41f};
  const Outputs o = attended(w, heed::Scale{1});
  EXPECT_NEAR(o.out[0] * 1e38f, 2e-3, 1e-4);
  EXPECT_GT(o.lse[0], 0.6931472f);
}
TEST(Numbers, R57DenormalsOfTheProcessStay) {
  const World w({1, 1, 1, 4, 4, 4, 4}, Filling::normal, 1);
  attended(w, heed::causal);
  volatile double tiny = 1e-310;
  EXPECT_NE(tiny / 2, 0.0);
}
TEST(Numbers, RoundingModeOfTheProcessStays) {
  const World w({1, 1, 1, 4, 4, 4, 4}, Filling::normal, 1);
  const int before = std::fegetround();
  attended(w, heed::causal);
  EXPECT_EQ(std::fegetround(), before);
}

}  // namespace
}  // namespace support

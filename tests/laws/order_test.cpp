// SPDX-License-Identifier: Apache-2.0
//
// Law 7: which policies commute and which do not. Masks, encodings' place in the list, leading
// factors and additions commute; whatever CoPE counts or a formula bends does not. And relations
// between whole calls that need no oracle.

#include "support/policies.hpp"

namespace support {
namespace {

const World& world() {
  static const World w({2, 4, 2, 70, 90, 8, 9}, Filling::normal, 4);
  return w;
}
struct Tools {
  std::vector<float> scales{0.7f, 1.5f, 2.f, 1.1f};
  TableOf table;
  Tools() {
    Random r(6);
    table.make(r, 1, 12, 8, 0.5);
  }
  heed::HeadScale sharp() const { return {scales}; }
  heed::Cope cope() const { return heed::Cope{table.view()}; }
};
const Tools& tools() {
  static const Tools t;
  return t;
}

::testing::AssertionResult nearly(const Outputs& a, const Outputs& b) {
  for (std::size_t i = 0; i < a.out.size(); ++i) {
    if (std::abs(a.out[i] - b.out[i]) > 2e-6f * (1 + std::abs(a.out[i]))) {
      return ::testing::AssertionFailure() << a.out[i] << " and " << b.out[i] << " at " << i;
    }
  }
  return ::testing::AssertionSuccess();
}

TEST(Order, MasksCommute) {
  const Outputs a = attended(world(), heed::causal & heed::Window{20});
  EXPECT_TRUE(same_bits(a, attended(world(), heed::Window{20} & heed::causal)));
  EXPECT_TRUE(same_bits(a, attended(world(), heed::Window{20}, heed::causal)));
  EXPECT_TRUE(same_bits(a, attended(world(), !((!heed::causal) | (!heed::Window{20})))));
}
TEST(Order, MasksAndScoresCommute) {
  EXPECT_TRUE(same_bits(attended(world(), heed::causal, tools().cope()),
                        attended(world(), tools().cope(), heed::causal)));
  EXPECT_TRUE(same_bits(attended(world(), heed::causal, heed::SoftCap{1}),
                        attended(world(), heed::SoftCap{1}, heed::causal)));
}
TEST(Order, LeadingFactorsCommute) {
  EXPECT_TRUE(
      same_bits(attended(world(), heed::causal, heed::LogScale{.floor = 10}, tools().sharp()),
                attended(world(), heed::causal, tools().sharp(), heed::LogScale{.floor = 10})));
}
TEST(Order, ScaleStandsAnywhere) {
  EXPECT_TRUE(same_bits(attended(world(), heed::causal, heed::Scale{0.4f}, heed::SoftCap{1}),
                        attended(world(), heed::causal, heed::SoftCap{1}, heed::Scale{0.4f})));
}
TEST(Order, EncodingsStandAnywhere) {
  const heed::Rope rope{.pairing = heed::Pairing::neighbours};
  EXPECT_TRUE(same_bits(attended(world(), heed::causal, rope, tools().cope()),
                        attended(world(), heed::causal, tools().cope(), rope)));
}
TEST(Order, AdditionsCommute) {
  const heed::Relative relative{.table = tools().table.view()};
  EXPECT_TRUE(nearly(attended(world(), heed::causal, heed::Alibi{}, relative),
                     attended(world(), heed::causal, relative, heed::Alibi{})));
}
TEST(Order, HeadScaleBeforeCopeChangesTheCounting) {
  EXPECT_TRUE(differs(attended(world(), heed::causal, tools().sharp(), tools().cope()).out,
                      attended(world(), heed::causal, tools().cope(), tools().sharp()).out, 1e-3));
}
TEST(Order, BiasBeforeCopeChangesTheCounting) {
  EXPECT_TRUE(differs(attended(world(), heed::causal, heed::Alibi{}, tools().cope()).out,
                      attended(world(), heed::causal, tools().cope(), heed::Alibi{}).out, 1e-3));
}
TEST(Order, SoftCapAndFactorsDoNotCommute) {
  EXPECT_TRUE(differs(attended(world(), heed::causal, heed::SoftCap{1}, tools().sharp()).out,
                      attended(world(), heed::causal, tools().sharp(), heed::SoftCap{1}).out,
                      1e-3));
}

// Relations between calls.
TEST(Order, ValuesTimesAPowerOfTwoAreOutputsTimesIt) {
  World doubled = world();
  for (float& x : doubled.data.v) x *= 8;
  Outputs expected = attended(world(), heed::causal, tools().cope());
  for (float& x : expected.out) x *= 8;
  EXPECT_TRUE(same_bits(expected, attended(doubled, heed::causal, tools().cope())));
}
TEST(Order, FactorOfTwoIsQueriesTimesTwo) {
  const std::vector<float> two(4, 2.f);
  World sharper = world();
  for (float& x : sharper.data.q) x *= 2;
  EXPECT_TRUE(same_bits(attended(sharper, heed::causal),
                        attended(world(), heed::causal, heed::HeadScale{two})));
}
TEST(Order, TemperatureIsTheInverseOfTheFactor) {
  const std::vector<float> c{0.5f, 2.f, 4.f, 0.25f}, t{2.f, 0.5f, 0.25f, 4.f};
  EXPECT_TRUE(same_bits(attended(world(), heed::causal, heed::HeadScale{c}),
                        attended(world(), heed::causal, heed::HeadScale::from_temperatures(t))));
}
TEST(Order, ConstantValuesGiveThatConstant) {
  World constant = world();
  std::fill(constant.data.v.begin(), constant.data.v.end(), 3.f);
  for (const float x : attended(constant, heed::causal, tools().cope()).out) {
    ASSERT_NEAR(x, 3, 1e-6 * 3);
  }
}
TEST(Order, ConstantAddedToALogitRowChangesOnlyItsLse) {
  const RowMajor five = RowMajor::Constant(70, 90, 5.f);
  const Outputs plain = attended(world(), heed::causal);
  const Outputs shifted = attended(world(), heed::causal, heed::Bias{five});
  EXPECT_TRUE(nearly(plain, shifted));
  for (std::size_t i = 0; i < plain.lse.size(); ++i) {
    ASSERT_NEAR(shifted.lse[i] - plain.lse[i], 5, 4e-6);
    ASSERT_NEAR(shifted.entropy[i], plain.entropy[i], 1e-5);
  }
}
TEST(Order, RopeReadsDistancesOnly) {
  std::vector<Index> q, k, q_far, k_far;
  for (Index i = 0; i < 70; ++i) q.push_back(20 + i), q_far.push_back(1020 + i);
  for (Index j = 0; j < 90; ++j) k.push_back(j), k_far.push_back(1000 + j);
  const heed::Rope rope{.pairing = heed::Pairing::halves};
  const Outputs near = attended(world(), heed::causal, heed::Positions{.q = q, .k = k}, rope);
  const Outputs far =
      attended(world(), heed::causal, heed::Positions{.q = q_far, .k = k_far}, rope);
  EXPECT_TRUE(nearly(near, far));
  EXPECT_TRUE(differs(near.out, attended(world(), heed::causal).out, 1e-2));
}
TEST(Order, AlibiReadsDistancesOnly) {
  std::vector<Index> q, k;
  constexpr Index kFar = Index{1} << 40;
  for (Index i = 0; i < 70; ++i) q.push_back(kFar + 20 + i);
  for (Index j = 0; j < 90; ++j) k.push_back(kFar + j);
  EXPECT_TRUE(same_bits(attended(world(), heed::causal, heed::Alibi{}),
                        attended(world(), heed::causal, heed::Positions{.q = q, .k = k},
                               heed::Alibi{})));
}
TEST(Order, GatesNearZeroLeaveEveryKeyAtPositionZero) {
  // Equal logits of -40 count nothing, so the bias is z[0] for every key.
  World w({1, 1, 1, 20, 20, 4, 3}, Filling::equal, 1);
  std::fill(w.data.q.begin(), w.data.q.end(), 1.f);
  std::fill(w.data.k.begin(), w.data.k.end(), -20.f);   // 4 * -20 / 2
  const Outputs with = attended(w, heed::causal, heed::Cope{heed::TableView(
                                     tools().table.data.data(), 1, 20, 4)});
  EXPECT_TRUE(nearly(attended(w, heed::causal), with));
}
TEST(Order, GatesNearOneAreRelativePositionsOffByOne) {
  World w({1, 1, 1, 20, 20, 4, 3}, Filling::equal, 1);
  std::fill(w.data.q.begin(), w.data.q.end(), 1.f);
  std::fill(w.data.k.begin(), w.data.k.end(), 20.f);
  const float* table = tools().table.data.data();
  const Outputs cope = attended(w, heed::causal, heed::Cope{heed::TableView(table, 1, 21, 4),
                                                          {.form = heed::CopeForm::b}});
  const Outputs relative = attended(
      w, heed::causal, heed::Relative{.table = heed::TableView(table + 4, 1, 20, 4)});
  EXPECT_TRUE(nearly(relative, cope));
  EXPECT_TRUE(differs(cope.out, attended(w, heed::causal).out, 1e-2));
}

}  // namespace
}  // namespace support

// SPDX-License-Identifier: Apache-2.0
//
// Law 6: a policy that does nothing changes no bit.

#include "support/policies.hpp"

namespace support {
namespace {

const World& world() {
  static const World w({2, 4, 2, 70, 90, 8, 9}, Filling::normal, 3);
  return w;
}
const Outputs& plain() {
  static const Outputs outputs = attended(world(), heed::causal);
  return outputs;
}

TEST(Neutral, CopeWithAZeroTableIsPlainAttention) {
  for (const Index rows : {1, 2, 30}) {
    const std::vector<float> zeros(size(rows * 8));
    const heed::TableView table(zeros.data(), 1, rows, 8);
    EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::Cope{table})));
    EXPECT_TRUE(same_bits(
        plain(), attended(world(), heed::causal, heed::Cope{table, {.form = heed::CopeForm::b}})));
  }
}
TEST(Neutral, ScaleOfOneOverTheRootIsTheDefault) {
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal,
                                          heed::Scale{static_cast<float>(1 / std::sqrt(8.0))})));
}
TEST(Neutral, HeadScaleOfOneIsPlainAttention) {
  const std::vector<float> ones(4, 1.f);
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::HeadScale{ones})));
  EXPECT_TRUE(same_bits(
      plain(), attended(world(), heed::causal, heed::HeadScale::from_temperatures(ones))));
}
TEST(Neutral, LogScaleBeforeItsFirstStepIsPlainAttention) {
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::LogScale{})));
}
TEST(Neutral, AlibiOfSlopeZeroIsPlainAttention) {
  const std::vector<float> zeros(4);
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::Alibi{zeros})));
}
TEST(Neutral, RelativeWithAZeroTableIsPlainAttention) {
  const std::vector<float> zeros(7 * 8);
  for (const bool capped : {false, true}) {
    EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal,
                                          heed::Relative{.table = {zeros.data(), 1, 7, 8},
                                                         .capped = capped})));
  }
}
TEST(Neutral, T5BiasOfZeroIsPlainAttention) {
  const RowMajor zeros = RowMajor::Zero(4, 8);
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::T5Bias{.table = zeros})));
}
TEST(Neutral, BiasOfZeroIsPlainAttention) {
  const RowMajor zeros = RowMajor::Zero(70, 90);
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::Bias{zeros})));
}
TEST(Neutral, IdentityAsAPointwiseScoreIsPlainAttention) {
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal,
                                        heed::pointwise([](float x) { return x; },
                                                        [](float) { return 1.f; }))));
}
TEST(Neutral, R18WindowOfAllKeysIsPlainCausal) {
  for (const Index window : {Index{90}, Index{91}, Index{1} << 40}) {
    EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal & heed::Window{window})));
  }
}
TEST(Neutral, DenseMaskOfTrueIsPlainAttention) {
  const Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> all =
      Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>::Constant(70, 90, true);
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::DenseMask{all})));
}
TEST(Neutral, OneDocumentIsPlainAttention) {
  const std::vector<Index> q(70, 4), k(90, 4);
  EXPECT_TRUE(same_bits(plain(),
                        attended(world(), heed::causal & heed::SameDocument{.q = q, .k = k})));
}
TEST(Neutral, FullLengthsAreTheDefault) {
  const std::vector<Index> q(2, 70), k(2, 90);
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::Lengths{.q = q, .kv = k})));
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::Lengths{.q = {}, .kv = k})));
}
TEST(Neutral, WrittenOutPositionsAreTheDefault) {
  std::vector<Index> q, k;
  for (Index i = 0; i < 70; ++i) q.push_back(20 + i);
  for (Index j = 0; j < 90; ++j) k.push_back(j);
  EXPECT_TRUE(same_bits(plain(), attended(world(), heed::causal, heed::Positions{.q = q, .k = k})));
}
TEST(Neutral, RopeAtPositionZeroTurnsNothing) {
  World one({1, 2, 1, 1, 1, 8, 4}, Filling::normal, 5);
  EXPECT_TRUE(same_bits(attended(one, heed::causal),
                        attended(one, heed::causal, heed::Rope{.pairing = heed::Pairing::halves})));
}

}  // namespace
}  // namespace support

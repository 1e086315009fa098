// SPDX-License-Identifier: Apache-2.0
//
// Drawing the next token: order, ties, limits, shares and seeds.

#include "sampler.hpp"

#include <gtest/gtest.h>

#include <array>

namespace lm {
namespace {

Matrix row(std::initializer_list<float> values) {
  Matrix m(1, Index(values.size()));
  std::copy(values.begin(), values.end(), m.data());
  return m;
}

TEST(Sampler, LikeliestFirstAndTiesToTheSmallerId) {
  const auto top = likeliest(row({1, 3, 3, 2, -5}), 4);
  ASSERT_EQ(top.size(), 4u);
  EXPECT_EQ(top[0].id, 1);
  EXPECT_EQ(top[1].id, 2);
  EXPECT_EQ(top[2].id, 3);
  EXPECT_EQ(top[3].id, 0);
  const double all = 2 * std::exp(3.0) + std::exp(2.0) + std::exp(1.0) + std::exp(-5.0);
  EXPECT_NEAR(top[2].probability, std::exp(2.0) / all, 1e-6);
  EXPECT_EQ(likeliest(row({1, 2}), 9).size(), 2u);
}

TEST(Sampler, LogSumOfLargeLogits) {
  EXPECT_NEAR(log_sum(row({1000, 1000}).row(0)), 1000 + std::log(2.0), 1e-4);
}

TEST(Sampler, WithoutTemperatureTheLikeliest) {
  Sampler sample({.temperature = 0, .top_k = 0, .seed = 9});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(sample(row({0, 1, 5, 1})), 2);
}

TEST(Sampler, SharesFollowTheTemperature) {
  const Matrix logits = row({0, std::log(2.0f), std::log(4.0f), -9});
  Sampler sample({.temperature = 0.5, .top_k = 3, .seed = 4});
  std::array<int, 4> drawn{};
  constexpr int kDraws = 42000;
  for (int i = 0; i < kDraws; ++i) ++drawn[std::size_t(sample(logits))];
  EXPECT_NEAR(drawn[0], kDraws / 21.0, 250);  // 1 : 4 : 16
  EXPECT_NEAR(drawn[1], kDraws * 4 / 21.0, 450);
  EXPECT_EQ(drawn[3], 0);
}

TEST(Sampler, ASeedRepeatsItself) {
  const Matrix logits = row({0, 1, 2, 1, 0, 2, 2});
  Sampler a({.temperature = 1, .top_k = 0, .seed = 7});
  Sampler b({.temperature = 1, .top_k = 0, .seed = 7});
  Sampler c({.temperature = 1, .top_k = 0, .seed = 8});
  int equal = 0;
  for (int i = 0; i < 100; ++i) {
    const int drawn = a(logits);
    EXPECT_EQ(drawn, b(logits));
    equal += drawn == c(logits);
  }
  EXPECT_LT(equal, 60);
}

}  // namespace
}  // namespace lm

// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/scale.hpp"

#include "block.hpp"

namespace heed {
namespace {

using test::refusal;

const Shape kShape{.batch = 1, .heads = 2};
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Scale, ReplacesTheBase) {
  EXPECT_EQ(Scale{0.25f}.base_scale(), 0.25f);
  EXPECT_EQ(refusal([] { Scale{0.25f}.check(kShape); }), "");
  EXPECT_EQ(refusal([] { Scale{0}.check(kShape); }),
            "heed::attend: Scale is 0.000000; expected a finite number above 0");
  for (const float bad : {-1.0f, kInf, kNan}) {
    EXPECT_NE(refusal([=] { Scale{bad}.check(kShape); }), "");
  }
}

TEST(HeadScale, IsPerQueryHead) {
  const std::vector<float> numbers{1.5f, 4};
  const HeadScale scale{numbers};
  EXPECT_EQ(scale.factor({0, 1, 3, 3}), 4);
  EXPECT_EQ(HeadScale::from_temperatures(numbers).factor({0, 1, 3, 3}), 0.25f);
  EXPECT_EQ(refusal([&] { scale.check(kShape); }), "");
}

TEST(HeadScale, IsChecked) {
  const std::vector<float> three{1, 1, 1}, zero{1, 0}, tiny{1, 1e-45f}, nan{kNan, 1};
  EXPECT_EQ(refusal([&] { HeadScale{three}.check(kShape); }),
            "heed::attend: HeadScale has 3 numbers; expected one per query head, 2");
  EXPECT_EQ(refusal([&] { HeadScale{zero}.check(kShape); }),
            "heed::attend: HeadScale has 0.000000 for head 1; expected finite numbers above 0");
  EXPECT_NE(refusal([&] { HeadScale{nan}.check(kShape); }), "");
  EXPECT_NE(refusal([&] { HeadScale::from_temperatures(zero).check(kShape); }), "");
  EXPECT_NE(refusal([&] { HeadScale::from_temperatures(tiny).check(kShape); }), "");
}

TEST(LogScale, StepsWithThePosition) {
  const LogScale scale;
  const auto at = [&](Index position) { return scale.factor({0, 0, 0, position}); };
  EXPECT_EQ(at(0), 1);
  EXPECT_EQ(at(8190), 1);
  EXPECT_FLOAT_EQ(at(8191), 1.0693147f);    // 1 + 0.1 ln 2
  EXPECT_FLOAT_EQ(at(16383), 1.1098612f);   // 1 + 0.1 ln 3
  EXPECT_EQ(at(-5), 1);
  const LogScale natural{.alpha = 1, .floor = 1, .offset = 0};
  EXPECT_FLOAT_EQ(natural.factor({0, 0, 0, 9}), 3.3025851f);   // 1 + ln 10
  EXPECT_EQ(refusal([] { LogScale{.floor = 0}.check(kShape); }),
            "heed::attend: LogScale.floor is 0; expected at least 1");
  EXPECT_NE(refusal([] { LogScale{.alpha = -1}.check(kShape); }), "");
}

}  // namespace
}  // namespace heed

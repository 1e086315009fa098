// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/sink_logits.hpp"

#include "block.hpp"

namespace heed {
namespace {

TEST(SinkLogits, IsPerQueryHead) {
  const std::vector<float> logits{-1, 2.5f, 0};
  const SinkLogits sink{logits};
  EXPECT_EQ(sink.prior({0, 1, 7, 7}), 2.5f);
  Shape shape;
  shape.heads = 3;
  EXPECT_EQ(test::refusal([&] { sink.check(shape); }), "");
  shape.heads = 4;
  EXPECT_EQ(test::refusal([&] { sink.check(shape); }),
            "heed::attend: SinkLogits has 3 numbers; expected one per query head, 4");
}

TEST(SinkLogits, IsFinite) {
  const std::vector<float> logits{0, -std::numeric_limits<float>::infinity()};
  Shape shape;
  shape.heads = 2;
  EXPECT_EQ(test::refusal([&] { SinkLogits{logits}.check(shape); }),
            "heed::attend: SinkLogits has -inf for head 1; expected finite logits");
}

}  // namespace
}  // namespace heed

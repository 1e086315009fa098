// SPDX-License-Identifier: Apache-2.0
//
// Mistakes in one sentence, sizes without overflow, scratch at a cache line.

#include <gtest/gtest.h>

#include <functional>
#include <heed/core/buffer.hpp>
#include <heed/core/contract.hpp>

namespace {

using heed::Index;
namespace contract = heed::contract;

std::string sentence(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "nothing thrown";
}

TEST(Contract, RefusalIsOneSentence) {
  EXPECT_EQ(sentence([] { contract::refuse("attend", "k has 3 heads", "a divisor of q's 8"); }),
            "heed::attend: k has 3 heads; expected a divisor of q's 8");
}
TEST(Contract, ShapesAreNamed) {
  EXPECT_EQ(sentence([] { contract::same_shape("attend", "v", {1, 2, 3, 4}, {1, 2, 5, 4}); }),
            "heed::attend: v is [1, 2, 3, 4]; expected [1, 2, 5, 4]");
  EXPECT_NO_THROW(contract::same_shape("attend", "v", {1, 2, 3, 4}, {1, 2, 3, 4}));
}
TEST(Contract, ProductsThatOverflowAreRefused) {
  constexpr Index kHalf = Index{1} << 32;
  EXPECT_EQ(contract::product("attend", "q", kHalf, kHalf / 4), Index{1} << 62);
  EXPECT_NE(sentence([] { contract::product("attend", "q", kHalf, kHalf); }).find("overflow"),
            std::string::npos);
  EXPECT_EQ(contract::product("attend", "q", kHalf, 0), 0);
}

TEST(Buffer, StandsAtACacheLine) {
  for (const Index n : {0, 1, 3, 17, 1000}) {
    heed::Buffer<float> b(n);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 64, 0u);
    EXPECT_EQ(b.size(), n);
  }
}
TEST(Buffer, MovesItsMemory) {
  heed::Buffer<float> a(4);
  a[3] = 7;
  float* const where = a.data();
  heed::Buffer<float> b(std::move(a));
  EXPECT_EQ(b.data(), where);
  heed::Buffer<float> c;
  c = std::move(b);
  EXPECT_EQ(c.data(), where);
  EXPECT_EQ(c[3], 7);
}

}  // namespace

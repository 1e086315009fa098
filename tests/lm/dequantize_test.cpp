// SPDX-License-Identifier: Apache-2.0
//
// Floats out of every type of tensor, against numbers worked out by hand, at odd addresses.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dequantize.hpp"
#include "gguf_builder.hpp"

namespace {

using namespace lm_test;
using lm::Type;

void words(Bytes& bytes, std::initializer_list<int> values) {
  for (const int value : values) append(bytes, static_cast<std::uint16_t>(value));
}

// The tensor's floats, read from every address within a block of 8.
lm::Matrix read(Type type, std::array<lm::Index, 4> shape, const Bytes& bytes) {
  lm::Matrix first;
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes moved(shift);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    const lm::Tensor tensor{"w", shape, type, std::span(moved).subspan(shift)};
    const lm::Matrix here = lm::dequantize(tensor);
    if (shift == 0) first = here;
    const auto size = sizeof(float) * static_cast<std::size_t>(first.size());
    EXPECT_EQ(std::memcmp(here.data(), first.data(), size), 0);
  }
  return first;
}

TEST(Dequantize, Floats) {
  Bytes f32, f16, bf16;
  for (const float x : {1.f, -2.5f, 0.f, std::numeric_limits<float>::denorm_min(), 3e38f, -0.f}) {
    append(f32, x);
  }
  const lm::Matrix m = read(Type::kF32, {3, 2, 1, 1}, f32);
  EXPECT_EQ(m.rows(), 2);
  EXPECT_EQ(m(0, 1), -2.5f);
  EXPECT_EQ(m(1, 0), std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::signbit(m(1, 2)));

  // 1, -2, the largest, the smallest normal, the smallest, infinity
  words(f16, {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x7c00});
  const lm::Matrix h = read(Type::kF16, {6, 1, 1, 1}, f16);
  const float halves[] = {1, -2, 65504, 0x1p-14f, 0x1p-24f, std::numeric_limits<float>::infinity()};
  for (lm::Index i = 0; i < 6; ++i) EXPECT_EQ(h(0, i), halves[i]);

  words(bf16, {0x3f80, 0xc000, 0x3fc0, 0x0001});
  const lm::Matrix b = read(Type::kBf16, {2, 2, 1, 1}, bf16);
  EXPECT_EQ(b(0, 0), 1.f);
  EXPECT_EQ(b(0, 1), -2.f);
  EXPECT_EQ(b(1, 0), 1.5f);
  EXPECT_EQ(b(1, 1), 0x1p-133f);
}

TEST(Dequantize, Q8_0) {
  Bytes bytes;
  for (const int scale : {0x3800, 0xc000}) {  // 0.5, -2
    words(bytes, {scale});
    for (int i = 0; i < 32; ++i) append(bytes, static_cast<std::int8_t>(i == 31 ? -128 : i - 7));
  }
  for (const auto shape : {std::array<lm::Index, 4>{64, 1, 1, 1}, {32, 2, 1, 1}}) {
    const lm::Matrix m = read(Type::kQ8_0, shape, bytes);
    for (lm::Index i = 0; i < 64; ++i) {
      const lm::Index k = i % 32;
      const float q = k == 31 ? -128.f : static_cast<float>(k - 7);
      EXPECT_EQ(m.data()[i], (i < 32 ? 0.5f : -2.f) * q);
    }
  }
}

TEST(Dequantize, Q4_1) {
  Bytes bytes;
  for (const int low : {0xbc00, 0x0000}) {  // m = -1, 0
    words(bytes, {0x3400, low});            // d = 0.25
    for (int i = 0; i < 16; ++i) append(bytes, static_cast<std::uint8_t>(i | (15 - i) << 4));
  }
  const lm::Matrix m = read(Type::kQ4_1, {32, 2, 1, 1}, bytes);
  for (lm::Index i = 0; i < 16; ++i) {
    EXPECT_EQ(m(0, i), 0.25f * static_cast<float>(i) - 1);
    EXPECT_EQ(m(0, i + 16), 0.25f * static_cast<float>(15 - i) - 1);
    EXPECT_EQ(m(1, i), 0.25f * static_cast<float>(i));
  }
}

}  // namespace

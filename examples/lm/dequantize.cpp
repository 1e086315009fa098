// SPDX-License-Identifier: Apache-2.0
//
// Blocks to floats, a row at a time. The bytes of a tensor need not be aligned for their type, so
// every number is copied out.

#include "dequantize.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "gguf_format.hpp"

namespace lm {
namespace {

using format::load;

float half(std::span<const std::byte> bytes, std::size_t i) {
  return Eigen::numext::bit_cast<Eigen::half>(load<std::uint16_t>(bytes, i));
}
float brain(std::span<const std::byte> bytes, std::size_t i) {
  return Eigen::numext::bit_cast<Eigen::bfloat16>(load<std::uint16_t>(bytes, i));
}

void q8_0(std::span<const std::byte> block, float* out) {
  const float d = half(block, 0);
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(load<std::int8_t>(block, 2 + i));
  }
}

void q4_1(std::span<const std::byte> block, float* out) {
  const float d = half(block, 0);
  const float m = half(block, 1);
  for (std::size_t i = 0; i < 16; ++i) {
    const auto both = std::to_integer<unsigned>(block[4 + i]);
    out[i] = d * static_cast<float>(both & 15u) + m;
    out[i + 16] = d * static_cast<float>(both >> 4) + m;
  }
}

}  // namespace

void dequantize_row(const Tensor& tensor, Index row, std::span<float> out) {
  assert(row >= 0 && row < tensor.rows());
  assert(static_cast<Index>(out.size()) == tensor.columns());
  const BlockSize size = block_size(tensor.type);
  const auto each = static_cast<std::size_t>(size.bytes);
  const auto blocks = out.size() / static_cast<std::size_t>(size.elements);
  const auto bytes =
      tensor.bytes.subspan(static_cast<std::size_t>(row) * blocks * each, blocks * each);
  switch (tensor.type) {
    case Type::kF32:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = load<float>(bytes, i);
      break;
    case Type::kF16:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = half(bytes, i);
      break;
    case Type::kBf16:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = brain(bytes, i);
      break;
    case Type::kQ8_0:
      for (std::size_t i = 0; i < blocks; ++i) q8_0(bytes.subspan(i * each), &out[i * 32]);
      break;
    case Type::kQ4_1:
      for (std::size_t i = 0; i < blocks; ++i) q4_1(bytes.subspan(i * each), &out[i * 32]);
      break;
  }
}

Matrix dequantize(const Tensor& tensor) {
  Matrix result(tensor.rows(), tensor.columns());
  const auto columns = static_cast<std::size_t>(tensor.columns());
  for (Index row = 0; row < tensor.rows(); ++row) {
    dequantize_row(tensor, row, {result.data() + row * tensor.columns(), columns});
  }
  return result;
}

}  // namespace lm

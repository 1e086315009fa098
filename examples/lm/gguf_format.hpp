// SPDX-License-Identifier: Apache-2.0
//
// What the two files of the GGUF reader share: the numbers of the format, arithmetic that notices
// an overflow, and a cursor that compares every length with what is left before it moves.

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lm::format {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in memory");

// Value types of the metadata.
enum Value : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kReal32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kReal64,
  kValues
};
inline constexpr std::array<std::uint8_t, kValues> kValueBytes{1, 1, 2, 2, 4, 4, 4,
                                                               1, 0, 0, 8, 8, 8};
inline constexpr std::array<const char*, kValues> kValueNames{
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

// Tensor types by number, for refusals; an empty name is a number that stands for nothing.
inline constexpr std::array<std::string_view, 36> kTensorTypes{
    "F32",     "F16",   "Q4_0",   "Q4_1",  "",      "",       "Q5_0", "Q5_1",    "Q8_0",
    "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",  "Q6_K",   "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",     "I32",
    "I64",     "F64",   "IQ1_M",  "BF16",  "",      "",       "",     "TQ1_0",   "TQ2_0"};

inline std::string text(std::uint64_t value) { return std::to_string(value); }

// The smallest multiple of `alignment` (a power of two) from `value` on, or nothing beyond 2^64.
constexpr std::optional<std::uint64_t> align_up(std::uint64_t value, std::uint64_t alignment) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(value, alignment - 1, &sum)) return {};
  return sum & ~(alignment - 1);
}

// Element i of an array of T at any address.
template <typename T>
T load(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Takes from the front. What is not there comes back as nothing, and the cursor stays.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }

  std::optional<std::span<const std::byte>> take(std::uint64_t n) {
    if (n > left()) return {};
    const auto part = bytes_.subspan(at_, n);
    at_ += n;
    return part;
  }
  template <typename T>
  std::optional<T> number() {
    const auto part = take(sizeof(T));
    if (!part) return {};
    return load<T>(*part, 0);
  }
  std::optional<std::string_view> string() {
    const auto length = number<std::uint64_t>();
    const auto part = length ? take(*length) : std::nullopt;
    if (!part) return {};
    return std::string_view(reinterpret_cast<const char*>(part->data()), part->size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
};

}  // namespace lm::format

// SPDX-License-Identifier: Apache-2.0
//
// GGUF files made in memory: entries and tensors in the order of the calls. Counts, types and
// offsets may be set to anything, so that a test can ask what the reader says to them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf.hpp"

namespace lm_test {

// Numbers of the format.
enum : std::uint32_t {
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
  kReal64
};

using Bytes = std::vector<std::byte>;

template <typename T>
void append(Bytes& bytes, const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(T));
}
inline void append_string(Bytes& bytes, std::string_view text) {
  append(bytes, std::uint64_t{text.size()});
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  bytes.insert(bytes.end(), from, from + text.size());
}

class Builder {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // of the tensors' places; the entry is the caller's
  std::optional<std::uint64_t> claimed_entries, claimed_tensors;

  // An entry whose value is these bytes.
  Builder& raw(std::string_view key, std::uint32_t type, const Bytes& value) {
    append_string(entries_, key);
    append(entries_, type);
    entries_.insert(entries_.end(), value.begin(), value.end());
    ++entry_count_;
    return *this;
  }
  template <typename T>
  Builder& number(std::string_view key, std::uint32_t type, T value) {
    Bytes bytes;
    append(bytes, value);
    return raw(key, type, bytes);
  }
  Builder& u32(std::string_view key, std::uint32_t value) { return number(key, kU32, value); }
  Builder& f32(std::string_view key, float value) { return number(key, kReal32, value); }
  Builder& flag(std::string_view key, bool value) {
    return number(key, kBool, static_cast<std::uint8_t>(value));
  }
  Builder& string(std::string_view key, std::string_view value) {
    Bytes bytes;
    append_string(bytes, value);
    return raw(key, kString, bytes);
  }
  Builder& strings(std::string_view key, std::span<const std::string> values) {
    Bytes bytes = array_head(kString, values.size());
    for (const auto& value : values) append_string(bytes, value);
    return raw(key, kArray, bytes);
  }
  template <typename T>
  Builder& numbers(std::string_view key, std::uint32_t type, std::span<const T> values) {
    Bytes bytes = array_head(type, values.size());
    for (const T value : values) append(bytes, value);
    return raw(key, kArray, bytes);
  }
  static Bytes array_head(std::uint32_t type, std::uint64_t count) {
    Bytes bytes;
    append(bytes, type);
    append(bytes, count);
    return bytes;
  }

  // A tensor with these bytes, placed behind the one before, or at `offset`.
  Builder& tensor(std::string_view name, std::span<const std::uint64_t> shape, std::uint32_t type,
                  const Bytes& bytes, std::optional<std::uint64_t> offset = {},
                  std::optional<std::uint32_t> rank = {}) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    append_string(tensors_, name);
    append(tensors_, rank.value_or(static_cast<std::uint32_t>(shape.size())));
    for (const std::uint64_t extent : shape) append(tensors_, extent);
    append(tensors_, type);
    append(tensors_, offset.value_or(data_.size()));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    ++tensor_count_;
    return *this;
  }
  Builder& tensor(std::string_view name, std::initializer_list<std::uint64_t> shape, lm::Type type,
                  const Bytes& bytes) {
    return tensor(name, std::span(shape.begin(), shape.size()), static_cast<std::uint32_t>(type),
                  bytes);
  }

  Bytes bytes() const {
    Bytes file;
    for (const char c : {'G', 'G', 'U', 'F'}) append(file, c);
    append(file, version);
    append(file, claimed_tensors.value_or(tensor_count_));
    append(file, claimed_entries.value_or(entry_count_));
    file.insert(file.end(), entries_.begin(), entries_.end());
    file.insert(file.end(), tensors_.begin(), tensors_.end());
    if (!data_.empty()) file.resize((file.size() + alignment - 1) / alignment * alignment);
    file.insert(file.end(), data_.begin(), data_.end());
    return file;
  }

 private:
  Bytes entries_, tensors_, data_;
  std::uint64_t entry_count_ = 0, tensor_count_ = 0;
};

// `n` bytes that differ.
inline Bytes counting(std::size_t n) {
  Bytes bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

// What the reader says to a file: the sentence, or "" when it takes it.
inline std::string said(const Bytes& file) {
  try {
    static_cast<void>(lm::Gguf::parse(file, "file"));
  } catch (const lm::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace lm_test

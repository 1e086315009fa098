// SPDX-License-Identifier: Apache-2.0
//
// A GGUF file (version 2 or 3, little-endian), mapped into memory and checked whole when opened:
//   "GGUF" version tensors entries | entry... | tensor... | padding | the tensors' bytes
// Every count, length, offset and type is compared with the bytes that are there before anything
// is read or allocated, so a damaged file ends in one sentence (lm::Error), never in a crash, a
// hang or an allocation beyond a few times the file. What stays open: a file that somebody cuts
// short while it is mapped.

#pragma once

#include <Eigen/Core>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lm {

using Index = Eigen::Index;

// One sentence for the person at the terminal.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Element types that this reader takes; the values are the format's. Others are refused by name.
enum class Type : std::uint32_t { kF32 = 0, kF16 = 1, kQ4_1 = 3, kQ8_0 = 8, kBf16 = 30 };

// Elements and bytes of one block: a row is a whole number of them.
struct BlockSize {
  Index elements, bytes;
};
constexpr BlockSize block_size(Type type) {
  switch (type) {
    case Type::kF32:
      return {1, 4};
    case Type::kF16:
      return {1, 2};
    case Type::kBf16:
      return {1, 2};
    case Type::kQ4_1:
      return {32, 20};
    case Type::kQ8_0:
      return {32, 34};
  }
  return {1, 0};
}

// A tensor as the file holds it: rows() rows of columns() elements, the elements of a row next to
// each other. A dense layer's weights are [outputs, inputs], so y = W x.
struct Tensor {
  std::string_view name;
  std::array<Index, 4> shape{1, 1, 1, 1};  // the file's order: shape[0] is the row length
  Type type = Type::kF32;
  std::span<const std::byte> bytes;

  Index columns() const { return shape[0]; }
  Index rows() const { return shape[1] * shape[2] * shape[3]; }
};

// Names, texts and bytes that it hands out live as long as it does.
class Gguf {
 public:
  // Maps and checks the file; throws Error.
  static Gguf open(const std::string& path);
  // Checks bytes in memory, which must outlive the result. `name` is used in errors.
  static Gguf parse(std::span<const std::byte> bytes, std::string name);

  // Metadata. Each throws Error when the key is absent or holds another type; integers may be
  // stored in any width as long as the value fits, reals must be finite. The forms with a fallback
  // return it when the key is absent.
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::uint32_t get_u32(std::string_view key) const;
  std::uint32_t get_u32(std::string_view key, std::uint32_t fallback) const;
  float get_f32(std::string_view key) const;
  float get_f32(std::string_view key, float fallback) const;
  bool get_bool(std::string_view key, bool fallback) const;
  std::string_view get_string(std::string_view key) const;
  std::vector<std::string_view> get_strings(std::string_view key) const;
  std::vector<std::uint32_t> get_u32s(std::string_view key) const;

  // Tensors, sorted by name.
  std::span<const Tensor> tensors() const { return tensors_; }
  bool has_tensor(std::string_view name) const { return find_tensor(name) != nullptr; }
  const Tensor& tensor(std::string_view name) const;  // throws Error when absent
  // The same, and refuses another shape than [rows, columns].
  const Tensor& tensor(std::string_view name, Index columns, Index rows) const;

  const std::string& name() const { return name_; }  // the path, for messages
  Index size() const { return static_cast<Index>(bytes_.size()); }

 private:
  friend class GgufReader;  // gguf_read.cpp
  struct Entry {
    std::string_view key;
    std::span<const std::byte> bytes;  // the value, without type and count
    std::uint64_t count = 1;           // elements of an array
    std::uint32_t type = 0, element = 0;
  };
  Gguf() = default;
  void read();
  const Entry* find(std::string_view key) const;
  const Entry& expect(std::string_view key, bool array) const;
  const Tensor* find_tensor(std::string_view name) const;
  std::uint32_t to_u32(const Entry& entry, std::size_t i) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string name_;
  std::shared_ptr<const void> mapping_;
  std::span<const std::byte> bytes_;
  std::vector<Entry> entries_;   // sorted by key
  std::vector<Tensor> tensors_;  // sorted by name
};

// A text from a file as it may stand in a message: in quotes, cut, with \x.. for what does not
// print.
std::string quoted(std::string_view text);

}  // namespace lm

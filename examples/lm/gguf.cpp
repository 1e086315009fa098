// SPDX-License-Identifier: Apache-2.0
//
// Opening a GGUF file, and its metadata and tensors by name: binary search in the tables that
// gguf_read.cpp has checked, values converted where they fit.

#include "gguf.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "gguf_format.hpp"

namespace lm {
namespace {

using namespace format;

// Element i as u64, or nothing: negative, or no integer.
std::optional<std::uint64_t> integer(std::span<const std::byte> bytes, std::uint32_t type,
                                     std::size_t i) {
  std::int64_t value = 0;
  switch (type) {
    case kU8:
      return load<std::uint8_t>(bytes, i);
    case kU16:
      return load<std::uint16_t>(bytes, i);
    case kU32:
      return load<std::uint32_t>(bytes, i);
    case kU64:
      return load<std::uint64_t>(bytes, i);
    case kI8:
      value = load<std::int8_t>(bytes, i);
      break;
    case kI16:
      value = load<std::int16_t>(bytes, i);
      break;
    case kI32:
      value = load<std::int32_t>(bytes, i);
      break;
    case kI64:
      value = load<std::int64_t>(bytes, i);
      break;
    default:
      return {};
  }
  if (value < 0) return {};
  return static_cast<std::uint64_t>(value);
}

std::string type_name(std::uint32_t type, std::uint32_t element) {
  return (type == kArray ? std::string("an array of ") : std::string()) + kValueNames[element];
}

// The element of a table sorted by `member` whose member is `name`, or null.
template <typename T, typename Member>
const T* search(const std::vector<T>& table, std::string_view name, Member member) {
  const auto it = std::ranges::lower_bound(table, name, {}, member);
  return it != table.end() && (*it).*member == name ? &*it : nullptr;
}

}  // namespace

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 64;
  std::string result = "\"";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      result += c;
    } else {
      std::array<char, 5> hex{};
      std::snprintf(hex.data(), hex.size(), "\\x%02x", static_cast<unsigned>(byte));
      result += hex.data();
    }
  }
  return result + (text.size() > kShown ? "...\"" : "\"");
}

Gguf Gguf::open(const std::string& path) {
  Gguf file;
  file.name_ = path;
  // Without O_NONBLOCK a pipe would be waited for.
  const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (handle < 0) file.fail(std::string("cannot be opened (") + std::strerror(errno) + ")");
  struct stat info {};
  const bool regular = ::fstat(handle, &info) == 0 && S_ISREG(info.st_mode);
  const auto size = regular ? static_cast<std::size_t>(info.st_size) : 0;
  void* const start = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, handle, 0) : nullptr;
  ::close(handle);
  if (!regular) file.fail("is not a regular file");
  if (start == MAP_FAILED) file.fail("cannot be mapped into memory");
  if (start) {
    file.mapping_ = std::shared_ptr<const void>(
        start, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
    file.bytes_ = {static_cast<const std::byte*>(start), size};
  }
  file.read();
  return file;
}

Gguf Gguf::parse(std::span<const std::byte> bytes, std::string name) {
  Gguf file;
  file.name_ = std::move(name);
  file.bytes_ = bytes;
  file.read();
  return file;
}

void Gguf::fail(const std::string& what) const { throw Error(name_ + ": " + what); }

const Gguf::Entry* Gguf::find(std::string_view key) const {
  return search(entries_, key, &Entry::key);
}

const Gguf::Entry& Gguf::expect(std::string_view key, bool array) const {
  const Entry* entry = find(key);
  if (!entry) fail("has no " + quoted(key));
  if ((entry->type == kArray) != array) {
    fail(quoted(key) + " is " + type_name(entry->type, entry->element) + "; expected " +
         (array ? "an array" : "one value"));
  }
  return *entry;
}

std::uint32_t Gguf::to_u32(const Entry& entry, std::size_t i) const {
  const auto value = integer(entry.bytes, entry.element, i);
  if (!value || *value > std::numeric_limits<std::uint32_t>::max()) {
    fail(quoted(entry.key) + " is " + type_name(entry.type, entry.element) +
         (value ? " beyond 32 bits" : " and no integer from 0 on"));
  }
  return static_cast<std::uint32_t>(*value);
}

std::uint32_t Gguf::get_u32(std::string_view key) const { return to_u32(expect(key, false), 0); }
std::uint32_t Gguf::get_u32(std::string_view key, std::uint32_t fallback) const {
  return has(key) ? get_u32(key) : fallback;
}

float Gguf::get_f32(std::string_view key) const {
  const Entry& entry = expect(key, false);
  if (entry.element != kReal32 && entry.element != kReal64) {
    fail(quoted(key) + " is " + kValueNames[entry.element] + "; expected f32");
  }
  const double value =
      entry.element == kReal32 ? load<float>(entry.bytes, 0) : load<double>(entry.bytes, 0);
  // Written so that NaN is refused too.
  if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
    fail(quoted(key) + " is not a finite number");
  }
  return static_cast<float>(value);
}
float Gguf::get_f32(std::string_view key, float fallback) const {
  return has(key) ? get_f32(key) : fallback;
}

bool Gguf::get_bool(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const Entry& entry = expect(key, false);
  if (entry.element != kBool) {
    fail(quoted(key) + " is " + kValueNames[entry.element] + "; expected bool");
  }
  return entry.bytes[0] != std::byte{0};
}

std::string_view Gguf::get_string(std::string_view key) const {
  const Entry& entry = expect(key, false);
  if (entry.element != kString) {
    fail(quoted(key) + " is " + kValueNames[entry.element] + "; expected string");
  }
  return *Cursor(entry.bytes).string();
}

std::vector<std::string_view> Gguf::get_strings(std::string_view key) const {
  const Entry& entry = expect(key, true);
  if (entry.element != kString) {
    fail(quoted(key) + " is " + type_name(entry.type, entry.element) + "; expected strings");
  }
  std::vector<std::string_view> result;
  result.reserve(entry.count);
  Cursor cursor(entry.bytes);
  for (std::uint64_t i = 0; i < entry.count; ++i) result.push_back(*cursor.string());
  return result;
}

std::vector<std::uint32_t> Gguf::get_u32s(std::string_view key) const {
  const Entry& entry = expect(key, true);
  std::vector<std::uint32_t> result;
  result.reserve(entry.count);
  for (std::uint64_t i = 0; i < entry.count; ++i) result.push_back(to_u32(entry, i));
  return result;
}

const Tensor* Gguf::find_tensor(std::string_view name) const {
  return search(tensors_, name, &Tensor::name);
}

const Tensor& Gguf::tensor(std::string_view name) const {
  const Tensor* tensor = find_tensor(name);
  if (!tensor) fail("has no tensor " + quoted(name));
  return *tensor;
}

const Tensor& Gguf::tensor(std::string_view name, Index columns, Index rows) const {
  const Tensor& found = tensor(name);
  if (found.columns() != columns || found.rows() != rows) {
    const auto shape = [](Index r, Index c) {
      return "[" + std::to_string(r) + ", " + std::to_string(c) + "]";
    };
    fail("tensor " + quoted(name) + " is " + shape(found.rows(), found.columns()) + "; expected " +
         shape(rows, columns));
  }
  return found;
}

}  // namespace lm

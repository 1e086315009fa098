// SPDX-License-Identifier: Apache-2.0
//
// Reading the head of a GGUF file and placing its tensors. Tables are reserved only after their
// counts have been compared with the smallest size of an entry, so they take at most a few times
// the file.

#include <algorithm>
#include <limits>

#include "gguf.hpp"
#include "gguf_format.hpp"

namespace lm {
namespace {

using namespace format;

// The smallest entry: key length, one letter, type, one byte. The smallest tensor: name length,
// one letter, number of dimensions, one of them, type, offset.
constexpr std::uint64_t kSmallestEntry = 8 + 1 + 4 + 1;
constexpr std::uint64_t kSmallestTensor = 8 + 1 + 4 + 8 + 4 + 8;
constexpr std::uint64_t kLongestKey = 65535, kLongestName = 255;
constexpr std::uint32_t kDefaultAlignment = 32, kLargestAlignment = 65536;

bool supported(Type type) {
  return type == Type::kF32 || type == Type::kF16 || type == Type::kBf16 || type == Type::kQ4_1 ||
         type == Type::kQ8_0;
}

}  // namespace

// One pass over a file. `take` and `string` throw where the file ends too early.
class GgufReader {
 public:
  explicit GgufReader(Gguf& file) : file_(file), cursor_(file.bytes_) {}

  void run() {
    const auto magic = cursor_.take(4);
    if (!magic || std::memcmp(magic->data(), "GGUF", 4) != 0) file_.fail("is not a GGUF file");
    const auto version = number<std::uint32_t>("its head");
    if (version != 2 && version != 3) {
      file_.fail("has GGUF version " + text(version) + "; this program reads 2 and 3");
    }
    const auto tensors = number<std::uint64_t>("its head");
    const auto entries = number<std::uint64_t>("its head");
    expect_room(entries, kSmallestEntry, "metadata entries");
    expect_room(tensors, kSmallestTensor, "tensors");
    file_.entries_.reserve(entries);
    for (std::uint64_t i = 0; i < entries; ++i) entry("metadata entry " + text(i));
    sort_by(file_.entries_, &Gguf::Entry::key, "the key ");
    alignment();
    expect_room(tensors, kSmallestTensor, "tensors");
    file_.tensors_.reserve(tensors);
    places_.reserve(tensors);
    for (std::uint64_t i = 0; i < tensors; ++i) tensor("tensor " + text(i));
    place();
    sort_by(file_.tensors_, &Tensor::name, "the tensor ");
  }

 private:
  struct Place {
    std::uint64_t offset, size;
  };

  [[noreturn]] void ended(const std::string& where) const {
    file_.fail("ends too early, in " + where + " (it has " + text(file_.bytes_.size()) + " bytes)");
  }
  template <typename T>
  T number(const std::string& where) {
    const auto value = cursor_.number<T>();
    if (!value) ended(where);
    return *value;
  }
  void expect_room(std::uint64_t count, std::uint64_t each, const std::string& what) const {
    if (count > cursor_.left() / each) {
      file_.fail("claims " + text(count) + " " + what + ", more than the file can hold");
    }
  }
  template <typename T, typename Member>
  void sort_by(std::vector<T>& table, Member member, const std::string& what) const {
    std::ranges::sort(table, {}, member);
    const auto twice = std::ranges::adjacent_find(table, {}, member);
    if (twice != table.end()) file_.fail("holds " + what + quoted((*twice).*member) + " twice");
  }
  std::string_view name(const std::string& where, std::uint64_t longest) {
    const auto result = cursor_.string();
    if (!result) ended(where);
    if (result->empty() || result->size() > longest) {
      file_.fail(where + " has a name of " + text(result->size()) + " bytes");
    }
    return *result;
  }

  void entry(const std::string& where) {
    Gguf::Entry entry;
    entry.key = name(where, kLongestKey);
    const std::string key = quoted(entry.key);
    entry.type = entry.element = number<std::uint32_t>(key);
    if (entry.type == kArray) {
      entry.element = number<std::uint32_t>(key);
      entry.count = number<std::uint64_t>(key);
      if (entry.element == kArray) file_.fail(key + " is an array of arrays");
    }
    if (entry.element >= kValues) {
      file_.fail(key + " has the unknown value type " + text(entry.element));
    }
    // A string has at least its length.
    const std::uint64_t each = entry.element == kString ? 8 : kValueBytes[entry.element];
    if (entry.count > cursor_.left() / each) ended(key + " of " + text(entry.count) + " values");
    const std::uint64_t begin = cursor_.at();
    if (entry.element == kString) {
      for (std::uint64_t i = 0; i < entry.count; ++i) {
        if (!cursor_.string()) ended("string " + text(i) + " of " + key);
      }
    } else {
      cursor_.take(entry.count * each);
    }
    entry.bytes = file_.bytes_.subspan(begin, cursor_.at() - begin);
    if (entry.element == kBool &&
        std::ranges::any_of(entry.bytes, [](std::byte b) { return b > std::byte{1}; })) {
      file_.fail(key + " holds a bool that is neither 0 nor 1");
    }
    file_.entries_.push_back(entry);
  }

  void alignment() {
    const Gguf::Entry* entry = file_.find("general.alignment");
    if (!entry) return;
    if (entry->type != kU32) file_.fail("\"general.alignment\" is not a u32");
    alignment_ = load<std::uint32_t>(entry->bytes, 0);
    if (alignment_ < 8 || alignment_ > kLargestAlignment || !std::has_single_bit(alignment_)) {
      file_.fail("\"general.alignment\" is " + text(alignment_) +
                 "; expected a power of two from 8 to " + text(kLargestAlignment));
    }
  }

  void tensor(const std::string& number_in_file) {
    Tensor tensor;
    tensor.name = name(number_in_file, kLongestName);
    const std::string where = "tensor " + quoted(tensor.name);
    const auto rank = number<std::uint32_t>(where);
    if (rank < 1 || rank > tensor.shape.size()) {
      file_.fail(where + " has " + text(rank) + " dimensions; expected 1 to 4");
    }
    Index elements = 1;  // signed: what fits it fits everything below
    for (std::uint32_t d = 0; d < rank; ++d) {
      const auto extent = number<std::uint64_t>(where);
      if (extent == 0) file_.fail(where + " has a dimension of 0 elements");
      if (__builtin_mul_overflow(elements, extent, &elements)) too_large(where);
      tensor.shape[d] = static_cast<Index>(extent);
    }
    const auto type = number<std::uint32_t>(where);
    tensor.type = static_cast<Type>(type);
    if (!supported(tensor.type)) {
      const bool named = type < kTensorTypes.size() && !kTensorTypes[type].empty();
      file_.fail(where + " has type " + (named ? std::string(kTensorTypes[type]) : text(type)) +
                 "; this program reads F32, F16, BF16, Q4_1 and Q8_0");
    }
    const BlockSize block = block_size(tensor.type);
    if (tensor.columns() % block.elements != 0) {
      file_.fail(where + " has rows of " + std::to_string(tensor.columns()) +
                 " elements, which is no multiple of its block of " +
                 std::to_string(block.elements));
    }
    Place place{number<std::uint64_t>(where), 0};
    if (__builtin_mul_overflow(elements / block.elements, block.bytes, &place.size)) {
      too_large(where);
    }
    if (place.offset % alignment_ != 0) {
      file_.fail(where + " starts at offset " + text(place.offset) +
                 ", no multiple of the alignment " + text(alignment_));
    }
    file_.tensors_.push_back(tensor);
    places_.push_back(place);
  }
  [[noreturn]] void too_large(const std::string& where) const {
    file_.fail(where + " has dimensions whose product overflows");
  }

  // Offsets count from the first aligned byte behind the head.
  void place() {
    if (places_.empty()) return;
    const auto begin = align_up(cursor_.at(), alignment_);
    const std::uint64_t size = file_.bytes_.size();
    if (!begin || *begin > size) ended("the padding before the tensors");
    const std::uint64_t room = size - *begin;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const auto [offset, bytes] = places_[i];
      Tensor& tensor = file_.tensors_[i];
      if (offset > room || bytes > room - offset) {
        file_.fail("ends too early: tensor " + quoted(tensor.name) + " needs " + text(bytes) +
                   " bytes from offset " + text(offset) + " of " + text(room));
      }
      tensor.bytes = file_.bytes_.subspan(*begin + offset, bytes);
    }
    const auto first = [](const Tensor& tensor) { return tensor.bytes.data(); };
    std::ranges::sort(file_.tensors_, {}, first);
    const auto both =
        std::ranges::adjacent_find(file_.tensors_, [&](const Tensor& a, const Tensor& b) {
          return a.bytes.data() + a.bytes.size() > b.bytes.data();
        });
    if (both != file_.tensors_.end()) {
      file_.fail("tensors " + quoted(both[0].name) + " and " + quoted(both[1].name) + " overlap");
    }
  }

  Gguf& file_;
  Cursor cursor_;
  std::uint32_t alignment_ = kDefaultAlignment;
  std::vector<Place> places_;
};

void Gguf::read() { GgufReader(*this).run(); }

}  // namespace lm

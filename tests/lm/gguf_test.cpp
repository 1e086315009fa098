// SPDX-License-Identifier: Apache-2.0
//
// The reader: what it hands out of a good file, and what it says to bad ones (reliability rows
// R41, R79 to R84). Files are made here, in memory.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "allocations.hpp"
#include "gguf_format.hpp"
#include "vocabulary.hpp"

namespace {

using namespace lm_test;
constexpr std::uint64_t kBig = std::numeric_limits<std::uint64_t>::max();

// Expects a refusal that holds these words, at little cost.
void refused(const Bytes& file, const std::string& words) {
  count_allocations();
  const auto start = std::chrono::steady_clock::now();
  const std::string sentence = said(file);
  const auto time = std::chrono::steady_clock::now() - start;
  EXPECT_NE(sentence.find(words), sentence.npos) << sentence;
  EXPECT_EQ(sentence.find("file: "), 0u) << sentence;
  EXPECT_LT(allocations.peak, 8 * file.size() + 4096);
  EXPECT_LT(time, std::chrono::seconds(1));  // it is microseconds; a busy machine may stop it
}
void refused(const Builder& builder, const std::string& words) { refused(builder.bytes(), words); }

Builder with_tensor(std::initializer_list<std::uint64_t> shape, std::uint32_t type,
                    std::optional<std::uint32_t> rank = {}) {
  Builder b;
  b.tensor("w", std::span(shape.begin(), shape.size()), type, counting(64), {}, rank);
  return b;
}

TEST(Gguf, HandsOutWhatTheFileHolds) {
  const Bytes bytes = small_file();
  EXPECT_LE(bytes.size(), 4096u);
  const auto file = lm::Gguf::parse(bytes, "small");
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_EQ(file.get_u32("a.u64"), 7u);
  EXPECT_EQ(file.get_u32("absent", 5), 5u);
  EXPECT_EQ(file.get_f32("a.f32"), 0.5f);
  EXPECT_EQ(file.get_f32("absent", 2.f), 2.f);
  EXPECT_TRUE(file.get_bool("tokenizer.ggml.add_bos_token", false));
  EXPECT_EQ(file.get_strings("tokenizer.ggml.merges").at(1), "th e");
  EXPECT_EQ(file.get_u32s("tokenizer.ggml.token_type").at(2), 3u);
  EXPECT_EQ(file.tensors().size(), 5u);
  const lm::Tensor& tensor = file.tensor("f32", 4, 2);
  EXPECT_EQ(tensor.columns(), 4);
  EXPECT_EQ(tensor.rows(), 2);
  EXPECT_EQ(Bytes(tensor.bytes.begin(), tensor.bytes.end()), counting(32));
  EXPECT_FALSE(file.has_tensor("g32"));
}

TEST(Gguf, LooksUpByTypeAndSaysWhatIsThere) {
  Builder b;
  b.number("i32", kI32, std::int32_t{-1})
      .number("u64", kU64, std::uint64_t{1} << 32)
      .number("nan", kReal32, std::nanf(""))
      .number("f64", kReal64, 1e300)
      .string("text", "x")
      .numbers<std::int16_t>("i16s", kI16, std::vector<std::int16_t>{1, 2, -3})
      .tensor("w", {4, 2}, lm::Type::kF32, counting(32));
  const Bytes bytes = b.bytes();
  const auto file = lm::Gguf::parse(bytes, "file");
  const auto sentence = [&](auto&& call) -> std::string {
    try {
      call();
    } catch (const lm::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(sentence([&] { file.get_u32("no"); }), "file: has no \"no\"");
  EXPECT_EQ(sentence([&] { file.get_u32("i32"); }),
            "file: \"i32\" is i32 and no integer from 0 on");
  EXPECT_EQ(sentence([&] { file.get_u32("u64"); }), "file: \"u64\" is u64 beyond 32 bits");
  EXPECT_EQ(sentence([&] { file.get_u32("text"); }),
            "file: \"text\" is string and no integer from 0 on");
  EXPECT_EQ(sentence([&] { file.get_f32("nan"); }), "file: \"nan\" is not a finite number");
  EXPECT_EQ(sentence([&] { file.get_f32("f64"); }), "file: \"f64\" is not a finite number");
  EXPECT_EQ(sentence([&] { file.get_string("i32"); }), "file: \"i32\" is i32; expected string");
  EXPECT_EQ(sentence([&] { file.get_bool("i32", true); }), "file: \"i32\" is i32; expected bool");
  EXPECT_EQ(sentence([&] { file.get_strings("text"); }),
            "file: \"text\" is string; expected an array");
  EXPECT_EQ(sentence([&] { file.get_u32s("i16s"); }),
            "file: \"i16s\" is an array of i16 and no integer from 0 on");
  EXPECT_EQ(sentence([&] { file.get_u32("i16s"); }),
            "file: \"i16s\" is an array of i16; expected one value");
  EXPECT_EQ(sentence([&] { file.tensor("v"); }), "file: has no tensor \"v\"");
  EXPECT_EQ(sentence([&] { file.tensor("w", 2, 4); }),
            "file: tensor \"w\" is [2, 4]; expected [4, 2]");
}

TEST(Gguf, QuotesWhatMayNotBePrinted) {
  EXPECT_EQ(lm::quoted("a\"\n\x1b[0m\xff"), "\"a\\x22\\x0a\\x1b[0m\\xff\"");
  EXPECT_EQ(lm::quoted(std::string(100, 'a')), '"' + std::string(64, 'a') + "...\"");
}

TEST(Gguf, R79DimensionsWhoseProductWraps) {
  refused(with_tensor({(1ull << 42) + 1, 1ull << 22}, 0), "overflows");
  refused(with_tensor({1ull << 62, 4}, 0), "overflows");
  refused(with_tensor({1ull << 61, 2}, 0), "overflows");  // elements fit, bytes do not
  refused(with_tensor({1ull << 63}, 0), "overflows");
  refused(with_tensor({kBig, kBig, kBig, kBig}, 0), "overflows");
  refused(with_tensor({1ull << 60}, 0), "needs");
  refused(with_tensor({4, 0}, 0), "dimension of 0");
  refused(with_tensor({1}, 0, 5), "5 dimensions");
  refused(with_tensor({1}, 0, 0xffffffffu), "4294967295 dimensions");
  refused(with_tensor({}, 0, 0), "file");
  refused(with_tensor({4}, 255), "type 255");
  refused(with_tensor({4}, 0xffffffffu), "type 4294967295");
  refused(with_tensor({256}, 12), "type Q4_K; this program reads F32, F16, BF16, Q4_1 and Q8_0");
  refused(with_tensor({32}, 2), "type Q4_0");
  refused(with_tensor({32}, 4), "type 4");
}

TEST(Gguf, R80CountsBeyondTheFile) {
  for (const std::uint64_t count : {std::uint64_t{1} << 31, kBig >> 1, kBig}) {
    Builder b = with_tensor({4}, 0);
    b.claimed_entries = count;
    refused(b, "metadata entries, more than the file can hold");
    b = with_tensor({4}, 0);
    b.claimed_tensors = count;
    refused(b, "tensors, more than the file can hold");
  }
}

TEST(Gguf, R81LengthsOfStringsAndArrays) {
  for (const std::uint64_t length : {std::uint64_t{1} << 63, kBig, kBig - 7, std::uint64_t{60}}) {
    Builder b;
    Bytes value;
    append(value, length);
    refused(b.raw("s", kString, value), "ends too early");
  }
  for (const std::uint32_t type : {kU8, kU64, kString, kBool}) {
    for (const std::uint64_t count : {std::uint64_t{1} << 60, kBig, std::uint64_t{1} << 61}) {
      Builder b;
      refused(b.raw("a", kArray, Builder::array_head(type, count)), "ends too early");
    }
  }
  Builder nested;
  refused(nested.raw("a", kArray, Builder::array_head(kArray, 1)), "is an array of arrays");
  Builder unknown;
  refused(unknown.raw("a", 13, counting(16)), "unknown value type 13");
  Builder flag;
  refused(flag.number("b", kBool, std::uint8_t{2}), "neither 0 nor 1");
  Builder twice;
  refused(twice.u32("key", 1).u32("key", 2), "holds the key \"key\" twice");
  Builder empty;
  refused(empty.u32("", 1), "name of 0 bytes");
  Builder old;
  old.version = 1;
  refused(old, "GGUF version 1; this program reads 2 and 3");
}

TEST(Gguf, R82Alignment) {
  for (const std::uint32_t alignment : {0u, 1u, 3u, 31u, 1u << 31}) {
    Builder b = with_tensor({4}, 0);
    refused(b.u32("general.alignment", alignment), "expected a power of two from 8 to 65536");
  }
  Builder i32, text, flag;
  refused(i32.number("general.alignment", kI32, std::int32_t{32}), "is not a u32");
  refused(text.string("general.alignment", "32"), "is not a u32");
  refused(flag.flag("general.alignment", true), "is not a u32");
  Builder wide;
  wide.alignment = 4096;
  wide.u32("general.alignment", 4096).tensor("w", {4}, lm::Type::kF32, counting(16));
  EXPECT_EQ(said(wide.bytes()), "");
}

TEST(Gguf, R83PlacesOfTensors) {
  const std::uint64_t shape[] = {8};
  for (const std::uint64_t offset : {kBig - 31, std::uint64_t{1} << 63, std::uint64_t{64}}) {
    Builder b;
    refused(b.tensor("w", shape, 0, counting(32), offset), "needs 32 bytes from offset");
  }
  Builder odd;
  refused(odd.tensor("w", shape, 0, counting(64), 4), "no multiple of the alignment 32");
  Builder over;
  over.tensor("v", std::span<const std::uint64_t>({16}), 0, counting(64));
  refused(over.tensor("w", shape, 0, counting(32), 32), "tensors \"v\" and \"w\" overlap");
  Builder same;
  same.tensor("v", shape, 0, counting(32), 0);
  refused(same.tensor("w", shape, 0, counting(32), 0), "overlap");
  Builder twice;
  twice.tensor("w", shape, 0, counting(32));
  refused(twice.tensor("w", shape, 0, counting(32)), "holds the tensor \"w\" twice");
}

TEST(Gguf, R84RoundingUpNoticesTheEnd) {
  using lm::format::align_up;
  EXPECT_EQ(align_up(kBig, 32), std::nullopt);
  EXPECT_EQ(align_up(kBig - 30, 32), std::nullopt);
  EXPECT_EQ(align_up(kBig - 31, 32), kBig - 31);
  EXPECT_EQ(align_up(0, 32), 0u);
  EXPECT_EQ(align_up(1, 32), 32u);
}

TEST(Gguf, R41RowsThatAreNoWholeBlocks) {
  refused(with_tensor({100}, 8), "tensor \"w\" has rows of 100 elements");
  refused(with_tensor({16, 2}, 3), "tensor \"w\" has rows of 16 elements");
}

// Through the file system.
class GgufOpen : public testing::Test {
 protected:
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("heed_gguf_" + std::to_string(::getpid()));
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const char* name, const Bytes& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }
  static std::string sentence(const std::string& path) {
    try {
      static_cast<void>(lm::Gguf::open(path));
    } catch (const lm::Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(GgufOpen, MapsAndOutlivesItsCopies) {
  const std::string path = write("good.gguf", small_file());
  lm::Gguf file = lm::Gguf::open(path);
  const lm::Tensor tensor = file.tensor("q8_0");
  const lm::Gguf other = std::move(file);
  EXPECT_EQ(Bytes(tensor.bytes.begin(), tensor.bytes.end()), counting(34));
  EXPECT_EQ(other.get_string("general.architecture"), "llama");
}

TEST_F(GgufOpen, SaysWhatIsWrong) {
  const std::string none = folder_ / "none", pipe = folder_ / "pipe";
  EXPECT_EQ(sentence(none), none + ": cannot be opened (No such file or directory)");
  EXPECT_EQ(sentence(folder_), folder_.string() + ": is not a regular file");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(sentence(pipe), pipe + ": is not a regular file");
  const std::string empty = write("empty", {});
  EXPECT_EQ(sentence(empty), empty + ": is not a GGUF file");
  const std::string other = write("other", counting(100));
  EXPECT_EQ(sentence(other), other + ": is not a GGUF file");
}

}  // namespace

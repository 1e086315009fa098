// SPDX-License-Identifier: Apache-2.0
//
// Every prefix and every single-byte change of small valid files (figure F12, row R83): each is
// read to the end, tensors, tokenizer and all, or refused in one sentence, and never takes more
// than eight times its bytes. The usual run changes a file of 1.2 KB, the release run one of 4 KB,
// and then random pairs of bytes.

#include <gtest/gtest.h>

#include <string>

#include "allocations.hpp"
#include "dequantize.hpp"
#include "support/shapes.hpp"
#include "tokenizer.hpp"
#include "vocabulary.hpp"

namespace {

using namespace lm_test;

// Reads all there is; true when nothing was refused.
bool use(std::span<const std::byte> bytes) {
  count_allocations();
  bool good = true;
  try {
    const auto file = lm::Gguf::parse(bytes, "file");
    for (const auto& tensor : file.tensors()) static_cast<void>(lm::dequantize(tensor));
    const lm::Tokenizer tokenizer(file);
    for (const bool special : {false, true}) {
      const std::string text = "the <|b|>! aaaa \xff";
      EXPECT_EQ(tokenizer.decode(tokenizer.prompt(text, special)).ends_with(text), true);
    }
  } catch (const lm::Error& error) {
    EXPECT_NE(*error.what(), '\0');
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    good = false;
  }
  // The words and ids of the text above are not the file's doing.
  EXPECT_LE(allocations.peak, 8 * bytes.size() + 2048);
  return good;
}

TEST(Corrupt, TheWholeFilesAreGood) {
  EXPECT_TRUE(use(small_file()));
  EXPECT_TRUE(use(small_file('a', 'u')));
}

TEST(Corrupt, EveryPrefixIsRefused) {
  const Bytes file = small_file();
  ASSERT_GE(file.size(), 3500u);
  ASSERT_LE(file.size(), 4096u);
  for (std::size_t n = 0; n < file.size(); ++n) {
    ASSERT_FALSE(use(std::span(file).first(n))) << n;
    // Without anything readable behind the end, for the sanitizers.
    const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
    ASSERT_FALSE(use(cut)) << n;
  }
}

TEST(Corrupt, EveryByteChanged) {
  Bytes file = support::release_run() ? small_file() : small_file('a', 'u');
  std::size_t taken = 0;
  for (std::byte& byte : file) {
    const std::byte was = byte;
    for (int value = 0; value < 256; ++value) {
      if (static_cast<std::byte>(value) == was) continue;
      byte = static_cast<std::byte>(value);
      taken += use(file);
      ASSERT_FALSE(testing::Test::HasFailure()) << &byte - file.data() << " = " << value;
    }
    byte = was;
  }
  std::printf("%zu bytes, %zu changes, %zu of them taken\n", file.size(), 255 * file.size(), taken);
}

TEST(Corrupt, RandomPairsOfBytes) {
  Bytes file = small_file('a', 'u');
  support::Random random(support::run_seed());
  const int rounds = support::release_run() ? 2'000'000 : 20'000;
  const auto last = static_cast<support::Index>(file.size()) - 1;
  for (int i = 0; i < rounds; ++i) {
    Bytes changed = file;
    for (int k = 0; k < 2; ++k) {
      changed[static_cast<std::size_t>(random.integer(0, last))] =
          static_cast<std::byte>(random.integer(0, 255));
    }
    use(changed);
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << i;
  }
}

}  // namespace

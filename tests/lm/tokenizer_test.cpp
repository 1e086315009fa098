// SPDX-License-Identifier: Apache-2.0
//
// The tokenizer on a small vocabulary made here: merges and words by hand, any bytes in and the
// same bytes out, odd vocabularies (reliability rows R81, R86 to R89). The real vocabulary is in
// smollm2_test.

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "allocations.hpp"
#include "support/shapes.hpp"
#include "tokenizer.hpp"
#include "vocabulary.hpp"
#include "words.hpp"

namespace {

using namespace lm_test;
using Ids = std::vector<int>;
using Texts = std::vector<std::string>;

lm::Tokenizer make(const Builder& builder) {
  const Bytes bytes = builder.bytes();  // the tokenizer keeps nothing of them
  return lm::Tokenizer(lm::Gguf::parse(bytes, "file"));
}
lm::Tokenizer make(const Vocabulary& vocabulary, const std::string& rule = "smollm") {
  Builder builder;
  vocabulary.into(builder, rule);
  return make(builder);
}
std::string refusal(const Builder& builder) {
  try {
    make(builder);
  } catch (const lm::Error& error) {
    return error.what();
  }
  return "";
}
int byte_id(char c) { return kFirstByte + static_cast<unsigned char>(c); }

// Encodes both ways and expects the text back.
void returns(const lm::Tokenizer& tokenizer, const std::string& text) {
  for (const bool special : {false, true}) {
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, special)), text) << lm::quoted(text);
  }
}

Texts split(const char* rule, std::string_view text) {
  const auto words = lm::Words(rule).split(text);
  return {words.begin(), words.end()};
}

TEST(Words, FollowTheRule) {
  EXPECT_EQ(split("smollm", "I'm  in 12 cafés!\n\n x"),
            (Texts{"I", "'m", " ", " in", " ", "1", "2", " cafés", "!", "\n\n", " x"}));
  EXPECT_EQ(split("gpt-2", "a  12 b's '9"), (Texts{"a", " ", " 12", " b", "'s", " '", "9"}));
  EXPECT_EQ(split("smollm", "a  1"), (Texts{"a", "  ", "1"}));
  EXPECT_EQ(split("smollm", "a \xff\xe2\x82 b"), (Texts{"a", " \xff\xe2\x82", " b"}));
  EXPECT_EQ(split("smollm", ""), Texts{});
  EXPECT_THROW(lm::Words("tekken"), lm::Error);
}

TEST(Words, WellFormedIsWhatUnicodeSays) {
  for (const std::string good : {"a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                 "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(lm::well_formed(good), good);
  }
  for (const std::string bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe6\xad", "\xf0\x90\x80"}) {
    EXPECT_EQ(lm::well_formed(bad), std::string(bad.size(), '\x01'));
  }
}

TEST(Tokenizer, MergesByRankFromTheLeft) {
  const auto tokenizer = make(small_vocabulary());
  const int th = kFirstByte + 256, the = th + 1, aa = th + 2, aaaa = th + 3;
  EXPECT_EQ(tokenizer.encode("the", false), Ids{the});
  EXPECT_EQ(tokenizer.encode("tthh", false), (Ids{byte_id('t'), th, byte_id('h')}));
  EXPECT_EQ(tokenizer.encode("aaa", false), (Ids{aa, byte_id('a')}));
  EXPECT_EQ(tokenizer.encode("aaaaaaa", false), (Ids{aaaa, aa, byte_id('a')}));
  EXPECT_EQ(tokenizer.encode("a a", false), (Ids{byte_id('a'), byte_id(' '), byte_id('a')}));
  EXPECT_EQ(tokenizer.piece(the), "the");
  EXPECT_EQ(tokenizer.size(), aaaa + 1);
}

TEST(Tokenizer, LongWordsStayFast) {
  const auto tokenizer = make(small_vocabulary());
  const std::string text(1 << 20, 'a');
  const auto ids = tokenizer.encode(text, true);
  EXPECT_EQ(ids.size(), text.size() / 4);
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(Tokenizer, R86AnyBytesComeBack) {
  const auto tokenizer = make(small_vocabulary());
  for (int a = 0; a < 256; ++a) {
    returns(tokenizer, {static_cast<char>(a)});
    for (int b = 0; b < 256; ++b) {
      returns(tokenizer, {static_cast<char>(a), static_cast<char>(b)});
    }
  }
  for (const std::string text :
       {"\xe6\xad", "\xe2\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    returns(tokenizer, text);
    returns(tokenizer, "the" + text + "the");
  }
  returns(tokenizer, std::string("a\0b\0", 4));
  support::Random random(support::run_seed());
  for (int i = 0; i < 2000; ++i) {
    std::string text(static_cast<std::size_t>(random.integer(0, 39)), ' ');
    for (char& c : text) c = static_cast<char>(random.integer(0, 255));
    returns(tokenizer, text);
  }
}

TEST(Tokenizer, R86BytesWithoutATokenAreIdsBehindTheVocabulary) {
  const auto tokenizer = make(small_vocabulary(0, 127));
  const Ids ids = tokenizer.encode(
      "a\xc3\xa9"
      "a",
      false);
  EXPECT_EQ(ids,
            (Ids{byte_id('a'), tokenizer.size() + 0xc3, tokenizer.size() + 0xa9, byte_id('a')}));
  EXPECT_EQ(tokenizer.known(ids), (Ids{byte_id('a'), byte_id('a')}));
  for (int b = 0; b < 256; ++b) returns(tokenizer, {'t', static_cast<char>(b), 'h'});
  EXPECT_THROW(tokenizer.piece(-1), lm::Error);
  EXPECT_THROW(tokenizer.piece(tokenizer.size() + 256), lm::Error);
  EXPECT_THROW(tokenizer.piece(std::numeric_limits<int>::max()), lm::Error);
}

TEST(Tokenizer, R87OddVocabularies) {
  Vocabulary v = small_vocabulary();
  const int joiner = static_cast<int>(v.tokens.size());
  v.add("a\u200d", 1);  // outside the alphabet
  v.add("", 1);
  v.add("", 3);
  v.add("", 4);
  v.add("the", 1);  // a second time
  v.add("\xff\xc4", 1);
  v.add("has space", 1);
  v.add("<unused>", 5);
  const auto tokenizer = make(v);
  EXPECT_EQ(tokenizer.piece(joiner), "a\u200d");
  EXPECT_EQ(tokenizer.piece(joiner + 1), "");
  EXPECT_EQ(tokenizer.encode("the", true), Ids{kFirstByte + 257});
  for (const std::string text : {"a\u200d", "the", "has space", "<unused>", "\xff\xc4"}) {
    returns(tokenizer, text);
  }
}

TEST(Tokenizer, SaysWhatIsWrongWithAVocabulary) {
  const auto with = [](auto&& change) {
    Vocabulary v = small_vocabulary();
    Builder b;
    change(v, b);
    v.into(b);
    return refusal(b);
  };
  const auto type = [](std::uint8_t t) { return [t](Vocabulary& v, Builder&) { v.add("x", t); }; };
  EXPECT_EQ(with(type(0)), "file: token 263 has the unknown type 0");
  EXPECT_EQ(with(type(7)), "file: token 263 has the unknown type 7");
  EXPECT_EQ(with([](auto& v, auto&) { v.types.pop_back(); }),
            "file: has 263 tokens and 262 token types");
  for (const std::string merge : {"t q", "a", "a ", " a", "", "a  a", "a a a", "\u200d a"}) {
    EXPECT_EQ(with([&](auto& v, auto&) { v.merges.push_back(merge); }),
              "file: merge 4, " + lm::quoted(merge) + ", does not join two tokens to a third");
  }
  EXPECT_EQ(with([](auto&, auto& b) { b.u32("tokenizer.ggml.bos_token_id", 263); }),
            "file: \"tokenizer.ggml.bos_token_id\" is 263, outside the vocabulary of 263");
  EXPECT_EQ(with([](auto&, auto& b) { b.flag("tokenizer.ggml.add_bos_token", true); }),
            "file: asks for a start token and names none");
  Builder other;
  other.string("tokenizer.ggml.model", "llama");
  EXPECT_EQ(refusal(other), "file: has a tokenizer of the kind \"llama\"; this program reads gpt2");
  Builder empty;
  Vocabulary{}.into(empty);
  EXPECT_EQ(refusal(empty), "file: has a vocabulary of 0 tokens");
}

TEST(Tokenizer, R88OneStartToken) {
  Builder b;
  b.u32("tokenizer.ggml.bos_token_id", 0).flag("tokenizer.ggml.add_bos_token", true);
  small_vocabulary().into(b);
  const auto tokenizer = make(b);
  EXPECT_EQ(tokenizer.prompt("", true), Ids{0});
  EXPECT_EQ(tokenizer.prompt("<|a|>", true), Ids{0});
  EXPECT_EQ(tokenizer.prompt("q", true), (Ids{0, byte_id('q')}));
  EXPECT_EQ(tokenizer.prompt("<|a|>q", false).front(), 0);
  EXPECT_EQ(tokenizer.prompt("<|a|>q", false).at(1), byte_id('<'));
  EXPECT_EQ(tokenizer.encode("q", true), Ids{byte_id('q')});  // the second turn of a chat
  EXPECT_EQ(make(small_vocabulary()).prompt("", true), Ids{});
}

TEST(Tokenizer, R89ControlTokensOnlyWhenAsked) {
  Vocabulary v = small_vocabulary();
  const int user = static_cast<int>(v.tokens.size());
  v.add("[user]", 4);
  const auto tokenizer = make(v);
  for (const std::string text : {"<|a|>", "x<|b|>y", "<|b|>!", "<|a|><|b|>"}) {
    const Ids ids = tokenizer.encode(text, false);
    for (const int id : ids) EXPECT_FALSE(tokenizer.is_control(id));
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
  EXPECT_EQ(tokenizer.encode("<|b|>!<|b|><|a|>x", true), (Ids{2, 1, 0, byte_id('x')}));
  EXPECT_EQ(tokenizer.encode("[user]", false), Ids{user});  // text, by its type
}

// A longer special may not hide a shorter one that fits.
TEST(Tokenizer, SpecialsThatBeginEachOther) {
  Vocabulary v = small_vocabulary();
  const int first = static_cast<int>(v.tokens.size());
  for (const char* text : {"[", "[a", "[ab", "[abcd", "[ac", "[b"}) v.add(text, 3);
  const auto tokenizer = make(v);
  EXPECT_EQ(tokenizer.encode("[abcz", true), (Ids{first + 2, byte_id('c'), byte_id('z')}));
  EXPECT_EQ(tokenizer.encode("[az[x[abcd[b", true),
            (Ids{first + 1, byte_id('z'), first, byte_id('x'), first + 3, first + 5}));
}

// Counted, because time is the machine's: the tables are a handful of blocks, whatever their
// length, and a few times the file. The time is for the release run.
TEST(Tokenizer, R81ALargeVocabularyLoadsQuickly) {
  Vocabulary v = small_vocabulary();
  const std::size_t pairs = v.tokens.size();
  for (int i = 0; i < 26 * 26; ++i) v.merge(letter('a' + i % 26), letter('a' + i / 26));
  for (std::size_t i = 0; v.tokens.size() < 150'000; ++i) {
    v.merge(v.tokens[pairs + i % (26 * 26)], letter(static_cast<int>(i / (26 * 26))));
  }
  Builder b;
  v.into(b);
  const Bytes bytes = b.bytes();
  count_allocations();
  const auto start = std::chrono::steady_clock::now();
  const lm::Tokenizer tokenizer(lm::Gguf::parse(bytes, "file"));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  EXPECT_LT(allocations.blocks, 200u);
  EXPECT_LT(allocations.peak, 8 * bytes.size());
  std::printf("%zu tokens, %zu bytes: %.3f s\n", v.tokens.size(), bytes.size(), time.count());
  if (support::release_run()) {
    EXPECT_LT(time.count(), 1.0);
  }
}

}  // namespace

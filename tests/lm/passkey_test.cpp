// SPDX-License-Identifier: Apache-2.0
//
// The text that hides a number: its length, the number's place, and what counts as an answer.
// Tokens are words here.

#include "passkey.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "chat.hpp"

namespace lm {
namespace {

Index words(const std::string& text) {
  std::istringstream in(text);
  std::string word;
  Index count = 0;
  while (in >> word) ++count;
  return count;
}
std::size_t times(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST(PasskeyText, IsAsLongAsAsked) {
  for (const Index length : {60, 61, 62, 63, 64, 65, 100, 512, 2048}) {
    const Index found = words(passkey_text(length, 0, 0.5, "48213", words));
    EXPECT_LE(found, length);
    EXPECT_GT(found, length - 8);  // less than a sentence is missing
    EXPECT_EQ(passkey_text(length + 9, 9, 0.5, "48213", words),
              passkey_text(length, 0, 0.5, "48213", words));
  }
}

TEST(PasskeyText, HidesTheKeyAtTheDepth) {
  const std::string key = "48213";
  const Index around = words(std::string(detail::kTask) + std::string(detail::kQuestion));
  for (const double depth : {0.0, 0.1, 0.3, 0.5, 0.9, 1.0}) {
    const std::string text = passkey_text(1024, 0, depth, key, words);
    EXPECT_EQ(times(text, key), 2u);  // said twice, in one place
    const std::string hidden = detail::hidden(key);
    const std::size_t at = text.find(hidden);
    ASSERT_NE(at, std::string::npos);
    const Index before = words(text.substr(0, at)) - words(std::string(detail::kTask));
    const Index filler = words(text) - around - words(hidden);
    EXPECT_NEAR(double(before), depth * double(filler), 4) << depth;  // half a sentence
    EXPECT_EQ(text.find(detail::kTask), 0u);
    EXPECT_TRUE(text.ends_with(detail::kQuestion));
  }
}

TEST(PasskeyText, DiffersOnlyInTheKey) {
  std::string a = passkey_text(300, 0, 0.3, "48213", words);
  const std::string b = passkey_text(300, 0, 0.3, "10002", words);
  for (std::size_t at; (at = a.find("48213")) != std::string::npos;) a.replace(at, 5, "10002");
  EXPECT_EQ(a, b);
}

TEST(PasskeyText, RefusesALengthWithoutRoom) {
  for (const Index length : {-1, 0, 20, 40}) {
    EXPECT_THROW(passkey_text(length, 0, 0.5, "48213", words), Error) << length;
  }
}

TEST(Passkey, IsTheFirstNumberOfTheAnswer) {
  for (const char* answer : {" 48213.", "48213", " is 48213, or 11111", "48213 48213"}) {
    EXPECT_TRUE(passkey_found(answer, "48213")) << answer;
  }
  for (const char* answer : {"", " none", " 4821", " 482133", " 11111, or 48213", " 48,213"}) {
    EXPECT_FALSE(passkey_found(answer, "48213")) << answer;
  }
}

TEST(Chat, WritesWhatTheTemplateAsksFor) {
  const std::string user = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(chat("{{'<|im_start|>' + role}}", "Why?", ""), user);
  EXPECT_EQ(chat("{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}", "Why?", ""),
            "<|im_start|>system\nBe kind.<|im_end|>\n" + user);
  for (const char* other : {"", "[INST]"}) {
    try {
      chat(other, "Why?", "leave --chat out");
      ADD_FAILURE() << other;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("leave --chat out"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace lm

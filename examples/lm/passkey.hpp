// SPDX-License-Identifier: Apache-2.0
//
// A text that hides a number: some words about what is to come, filler, the number in a sentence
// of its own, filler, and a question that only the number answers (the passkey task of Mohtashami
// and Jaggi, arXiv 2305.16300, in other words).

#pragma once

#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "dequantize.hpp"

namespace lm {

// What the answer begins with; the number is next.
inline constexpr std::string_view kPasskeyAnswer = "The secret number is";

namespace detail {

inline constexpr std::string_view kTask =
    "A secret number is hidden in the text below. Find the number and remember it. You will be "
    "asked for it at the end.\n\n";
inline constexpr std::string_view kFiller[] = {
    " The river is wide and slow.", " A cart goes down to the mill.", " The hills are green.",
    " It has rained since the morning.", " The road is quiet again.", " Two birds sit on a gate.",
    " The wind comes from the west."};
inline constexpr std::string_view kQuestion = "\n\nWhat is the secret number in the text above?";

inline std::string hidden(const std::string& key) {
  return " The secret number is " + key + ". Remember it: " + key + " is the secret number.";
}

}  // namespace detail

// With `around` more tokens around it, the text is at most `length` tokens, less by no more than a
// sentence; count(text) is how many a text is. depth: what share of the filler stands before the
// number, 0 to 1. Throws Error for a length that leaves no room for filler.
template <class Count>
std::string passkey_text(Index length, Index around, double depth, const std::string& key,
                         Count&& count) {
  std::vector<Index> until{0};  // tokens of the first sentences of the filler
  const Index least = around + count(std::string(detail::kTask) + detail::hidden(key) +
                                     std::string(detail::kQuestion));
  const auto sentence = [](std::size_t i) {
    return detail::kFiller[i % std::size(detail::kFiller)];
  };
  for (;;) {
    const Index next = until.back() + count(std::string(sentence(until.size() - 1)));
    if (least + next > length) {
      if (until.size() > 1) break;
      throw Error("--lengths has " + std::to_string(length) + "; with one sentence of filler a "
                  "prompt has " + std::to_string(least + next) + " tokens, the least there can be");
    }
    until.push_back(next);
  }
  std::size_t before = 0;
  const double wanted = depth * static_cast<double>(until.back());
  for (std::size_t i = 1; i < until.size(); ++i) {
    const auto miss = [&](std::size_t n) {
      return std::abs(static_cast<double>(until[n]) - wanted);
    };
    if (miss(i) < miss(before)) before = i;
  }
  std::string text(detail::kTask);
  for (std::size_t i = 0; i + 1 < until.size(); ++i) {
    if (i == before) text += detail::hidden(key);
    text += sentence(i);
  }
  if (before + 1 == until.size()) text += detail::hidden(key);
  return text + std::string(detail::kQuestion);
}

// Whether the first number in an answer is the key.
inline bool passkey_found(std::string_view answer, std::string_view key) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = answer.find_first_of(kDigits);
  if (begin == std::string_view::npos) return false;
  return answer.substr(begin, answer.find_first_not_of(kDigits, begin) - begin) == key;
}

}  // namespace lm

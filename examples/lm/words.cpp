// SPDX-License-Identifier: Apache-2.0
//
// The rules as PCRE2 patterns. Every character falls in one class of every rule, so a match exists
// at each place and no part of a text is lost. White space is Unicode's property of that name,
// spelled out because PCRE2's \s has one character more (U+180E).

#include "words.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "gguf.hpp"

namespace lm {
namespace {

#define SPACE "\\x09-\\x0d\\x{85}\\p{Z}"
struct Rule {
  std::string_view name, pattern;
};
constexpr std::array<Rule, 2> kRules{{
    {"gpt-2", "'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+"
              "|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"},
    // A number ends the text before it, so white space before one keeps its last space.
    {"smollm", "\\p{N}|'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?[^" SPACE "\\p{L}\\p{N}]+"
               "|[" SPACE "]+(?![^" SPACE "\\p{N}])|[" SPACE "]+"},
}};
#undef SPACE

// Bytes of the well-formed character at the front of `text`, or 0.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return within(1, 0x80, 0xbf) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool second = within(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool second = within(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
    return second && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string well_formed(std::string_view text) {
  std::string result(text);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = character(text.substr(i));
    if (n == 0) result[i] = '\x01';
    i += n == 0 ? 1 : n;
  }
  return result;
}

Words::Words(std::string_view rule) {
  std::string names;
  for (const Rule& known : kRules) {
    names += (names.empty() ? "" : " and ") + std::string(known.name);
    if (known.name != rule) continue;
    int error = 0;
    std::size_t place = 0;
    code_ = std::shared_ptr<const void>(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(known.pattern.data()), known.pattern.size(),
                      PCRE2_UTF | PCRE2_ANCHORED, &error, &place, nullptr),
        [](const void* code) {
          pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(code)));
        });
    if (!code_) throw Error("PCRE2 refuses the rule for words, error " + std::to_string(error));
    return;
  }
  throw Error("the tokenizer cuts words by the rule " + quoted(rule) + "; this program knows " +
              names);
}

std::vector<std::string_view> Words::split(std::string_view text) const {
  const std::string copy = well_formed(text);
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  if (!match) throw std::bad_alloc();
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(copy.data()), copy.size(), at,
                                  PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found < 1) throw Error("PCRE2 gives up on a text, error " + std::to_string(found));
    const std::size_t end = pcre2_get_ovector_pointer(match.get())[1];
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace lm

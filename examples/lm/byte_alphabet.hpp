// SPDX-License-Identifier: Apache-2.0
//
// GPT-2's alphabet: 256 printable characters, one per byte, in which a vocabulary writes tokens
// that are any bytes (so a space is written as U+0120). Here it is undone.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace lm {

// The byte that GPT-2's alphabet writes as this code point, or -1: printable Latin-1 stands for
// itself, the other 68 bytes follow from U+0100 on.
inline constexpr int kLetters = 324;
inline constexpr auto kByteOf = [] {
  std::array<std::int16_t, kLetters> bytes{};
  bytes.fill(-1);
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b > 32 && b < 127) || (b > 160 && b != 173);
    bytes[static_cast<std::size_t>(printable ? b : next++)] = static_cast<std::int16_t>(b);
  }
  return bytes;
}();

// Appends the bytes that `token` writes; false, and nothing appended, when a character is none of
// the alphabet's, which needs at most two bytes of UTF-8 for each.
inline bool append_bytes(std::string_view token, std::string& out) {
  const std::size_t before = out.size();
  for (std::size_t i = 0; i < token.size(); ++i) {
    unsigned point = static_cast<unsigned char>(token[i]);
    if (point >= 0x80) {
      const unsigned next = i + 1 < token.size() ? static_cast<unsigned char>(token[i + 1]) : 0u;
      const bool two = point >= 0xc2 && point <= 0xdf && next >= 0x80 && next <= 0xbf;
      point = two ? (point & 0x1f) << 6 | (next & 0x3f) : kLetters;
      ++i;
    }
    if (point >= kLetters || kByteOf[point] < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(kByteOf[point]);
  }
  return true;
}

}  // namespace lm

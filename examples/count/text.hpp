// SPDX-License-Identifier: Apache-2.0
//
// A text as Unicode characters, and where its units end. A unit's end is a property of a character
// and its neighbours, so it is what an earlier layer of a model would have left in a character's
// vector:
//   sentence   . ! ? and closing marks before a blank; not after "1" at a line's begin or "e.g",
//              not before a lower-case letter
//   word       the last of a run of letters and digits
//   paragraph  the last character before an empty line, or of the text

#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace count {

using Index = std::ptrdiff_t;  // Eigen's and heed's

enum class Unit { sentence, word, paragraph };

// A sentence that the user is to read; main prints it.
struct Complaint : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bytes that are not UTF-8 become U+FFFD, one each.
inline std::u32string decode(std::string_view bytes) {
  std::u32string text;
  text.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xC2 ? 0
                               : lead < 0xE0 ? 2
                               : lead < 0xF0 ? 3
                               : lead < 0xF5 ? 4
                                             : 0;
    char32_t code = length < 2 ? lead : lead & (0x7Fu >> length);
    bool good = length > 0 && i + length <= bytes.size();
    for (std::size_t j = 1; good && j < length; ++j) {
      const auto next = static_cast<unsigned char>(bytes[i + j]);
      good = (next & 0xC0) == 0x80;
      code = code << 6 | (next & 0x3F);
    }
    // Overlong forms, surrogates and what lies beyond Unicode.
    good = good && !(length == 3 && code < 0x800) && !(length == 4 && code < 0x10000) &&
           !(code >= 0xD800 && code < 0xE000) && code < 0x110000;
    text += good ? code : U'\uFFFD';
    i += good ? length : 1;
  }
  if (!text.empty() && text.front() == 0xFEFF) text.erase(0, 1);  // byte order mark
  return text;
}

inline void append(std::string& bytes, char32_t code) {
  const auto put = [&](char32_t byte) { bytes += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

inline std::u32string read(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw Complaint("there is no file " + path);
  if (std::filesystem::is_directory(path, error)) {
    throw Complaint(path + " is a folder, not a text");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Complaint(path + " cannot be opened for reading");
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) throw Complaint(path + " cannot be read");
  std::u32string text = decode(bytes);
  if (text.empty()) throw Complaint(path + " is empty");
  return text;
}

inline bool is_blank(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x3000;
}

// Letters and digits. Beyond ASCII: everything that is not known as blank, mark or symbol.
inline bool is_letter(char32_t c) {
  if (c < 0x80) return std::isalnum(static_cast<int>(c)) != 0;
  return c >= 0xAA && c != 0xAB && c != 0xBB && c != 0xBF && c != 0xD7 && c != 0xF7 &&
         !(c >= 0x2000 && c < 0x2C00) && !(c >= 0x3000 && c < 0x3040) &&
         !(c >= 0xFF00 && c < 0xFF10) && c != 0xFEFF && c != 0xFFFD && !is_blank(c);
}

namespace detail {

inline bool is_one_of(char32_t c, std::u32string_view set) {
  return set.find(c) != std::u32string_view::npos;
}

// One past the last character of the sentence that a mark at `i` ends, or 0 if it ends none.
inline std::size_t sentence_stop(std::u32string_view text, std::size_t i) {
  const bool wide = is_one_of(text[i], U"。！？");  // no blank follows these
  if (!wide && !is_one_of(text[i], U".!?…")) return 0;
  std::size_t stop = i + 1;
  while (stop < text.size() && is_one_of(text[stop], U"\"')]}”’»」』")) ++stop;
  if (!wide && stop < text.size() && !is_blank(text[stop])) return 0;
  std::size_t next = stop;
  while (next < text.size() && is_blank(text[next])) ++next;
  const char32_t after = next < text.size() ? text[next] : U' ';
  if ((after >= 'a' && after <= 'z') || after == '<') return 0;
  if (text[i] != '.') return stop;

  std::size_t word = i;  // the run of letters before the dot
  while (word > 0 && is_letter(text[word - 1])) --word;
  if (i - word == 1 && !std::isdigit(static_cast<int>(text[word] & 0x7F))) return 0;  // e.g.  J.
  const bool number =
      i > word && std::all_of(text.begin() + std::ptrdiff_t(word), text.begin() + std::ptrdiff_t(i),
                              [](char32_t c) { return c >= '0' && c <= '9'; });
  std::size_t line = word;
  while (line > 0 && is_blank(text[line - 1]) && text[line - 1] != '\n') --line;
  const bool heading = number && (line == 0 || text[line - 1] == '\n');  // "  1. Source Code."
  return heading ? 0 : stop;
}

inline bool ends_word(std::u32string_view text, std::size_t i) {
  if (!is_letter(text[i])) return false;
  if (i + 1 == text.size()) return true;
  if (is_letter(text[i + 1])) return false;
  const bool joins = is_one_of(text[i + 1], U"'’");  // don't
  return !(joins && i + 2 < text.size() && is_letter(text[i + 2]));
}

inline bool ends_paragraph(std::u32string_view text, std::size_t i) {
  if (is_blank(text[i])) return false;
  std::size_t newlines = 0, next = i + 1;
  for (; next < text.size() && is_blank(text[next]); ++next) newlines += text[next] == '\n';
  return newlines >= 2 || next == text.size();
}

}  // namespace detail

// Ascending indices of the characters that end a unit.
inline std::vector<Index> unit_ends(std::u32string_view text, Unit unit) {
  std::vector<Index> ends;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t stop = 0;  // one past the end
    if (unit == Unit::sentence) stop = detail::sentence_stop(text, i);
    if (unit == Unit::word && detail::ends_word(text, i)) stop = i + 1;
    if (unit == Unit::paragraph && detail::ends_paragraph(text, i)) stop = i + 1;
    if (stop == 0) continue;
    i = stop - 1;
    ends.push_back(static_cast<Index>(i));
  }
  return ends;
}

// On one line, runs of blanks as one, control characters as U+FFFD, some words in the middle left
// out beyond `width` characters.
inline std::string quote(std::u32string_view text, std::size_t width) {
  std::u32string line;
  for (const char32_t c : text) {
    const bool blank = is_blank(c);
    if (blank && (line.empty() || line.back() == ' ')) continue;
    line += blank ? U' ' : c < 0x20 || (c >= 0x7F && c < 0xA0) ? U'\uFFFD' : c;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (line.size() > width) {
    std::size_t head = width * 2 / 3 - 2, tail = line.size() - width / 3;
    const std::size_t space = line.rfind(' ', head), later = line.find(' ', tail);
    if (space != std::u32string::npos && space + 12 > head) head = space;
    if (later != std::u32string::npos && later < tail + 12) tail = later + 1;
    line = line.substr(0, head) + U" … " + line.substr(tail);
  }
  std::string bytes;
  for (const char32_t c : line) append(bytes, c);
  return bytes;
}

}  // namespace count

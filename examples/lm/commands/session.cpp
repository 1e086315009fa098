// SPDX-License-Identifier: Apache-2.0
//
// Loading a model, reading texts, and showing tokens.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "../clock.hpp"
#include "../weights.hpp"
#include "commands.hpp"

namespace lm {

Session::Session(const std::string& path, int thread_count) : threads(thread_count) {
  const Clock clock;
  const Gguf file = Gguf::open(path);
  tokenizer = std::make_unique<Tokenizer>(file);
  if (file.has("tokenizer.chat_template")) {
    chat_template = file.get_string("tokenizer.chat_template");
  }
  model = std::make_unique<Model>(load(file), threads);
  if (tokenizer->size() > model->config().vocabulary) {
    throw Error(path + ": the vocabulary has " + number(tokenizer->size()) +
                " tokens, and the model has vectors for " + number(model->config().vocabulary));
  }
  const double weights = static_cast<double>(model->weights());
  std::fprintf(stderr, "%s: %.0f MB, %.1f million weights, as floats %.0f MB in memory, loaded in "
               "%.1f s; %d thread%s\n",
               std::filesystem::path(path).filename().c_str(),
               static_cast<double>(file.size()) * 1e-6, weights * 1e-6,
               weights * sizeof(float) * 1e-6, clock.seconds(), thread_count,
               thread_count == 1 ? "" : "s");
}

std::vector<int> read_text(const Session& session, const std::string& path, Index most,
                           Index least) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw Error(path + " is a folder, not a text");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("the text " + path + " cannot be opened");
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) throw Error("the text " + path + " cannot be read");
  std::vector<int> ids = session.tokenizer->known(session.tokenizer->prompt(bytes, false));
  if (most > 0 && static_cast<Index>(ids.size()) > most) ids.resize(static_cast<std::size_t>(most));
  if (static_cast<Index>(ids.size()) < least) {
    throw Error(path + " has " + number(static_cast<Index>(ids.size())) + " tokens; at least " +
                number(least) + " are needed");
  }
  return ids;
}

namespace {

// The length of the well-formed UTF-8 character that text begins with, or 0.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond Unicode.
  const bool wrong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
                     (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F);
  return wrong ? 0 : length;
}

}  // namespace

void save(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.close();
  if (!out) throw Error(path + " cannot be written");
}
void check_writable(const std::string& path) {
  if (!path.empty() && !std::ofstream(path, std::ios::app)) {
    throw Error(path + " cannot be written");
  }
}

void check_range(const char* option, Index value, Index least, Index most) {
  if (value < least || value > most) {
    throw Error(std::string(option) + " is " + number(value) + "; it is " + number(least) +
                " to " + number(most));
  }
}

std::string readable(std::string_view piece) {
  std::string word;
  for (std::size_t i = 0; i < piece.size();) {
    const auto byte = static_cast<unsigned char>(piece[i]);
    const std::size_t length = character(std::string_view(piece).substr(i));
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", unsigned{byte});
    const bool plain = byte == '\n' || (length > 0 && byte >= 0x20 && byte != 0x7F);
    word += plain ? piece.substr(i, length) : hex;
    i += std::max<std::size_t>(length, 1);
  }
  return word;
}

std::string label(const Session& session, int id) {
  std::string word;
  for (const char c : readable(session.tokenizer->piece(id))) {
    if (c == ' ') word += "·";
    else if (c == '\n') word += "↵";
    else word += c;
  }
  return word;
}

std::string number(Index value) {
  std::string digits = std::to_string(value);
  for (Index i = static_cast<Index>(digits.size()) - 3; i > (value < 0 ? 1 : 0); i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

}  // namespace lm

// SPDX-License-Identifier: Apache-2.0
//
// A text as tokens: one per byte, bytes numbered by first appearance. The last tenth is for
// testing.

#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include "problem.hpp"

namespace tasks {

struct Text {
  std::vector<int> tokens;
  Index vocabulary = 0;
  Index training_end = 0;   // where testing begins

  Index size() const { return Index(tokens.size()); }

  // Tokens [first, first + length) and, for each, the next one as target.
  Sample window(Index first, Index length) const {
    const auto at = tokens.begin() + first;
    return {{at, at + length}, {at + 1, at + length + 1}};
  }
};

// A file, or the regular files of a folder one after the other, in the order of their names.
inline Text read_text(const std::string& path) {
  namespace fs = std::filesystem;
  std::set<fs::path> files;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.is_regular_file() && !entry.is_symlink()) files.insert(entry.path());
    }
  } else {
    files.insert(path);
  }
  std::string bytes;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw std::runtime_error("cannot read " + file.string());
    bytes.append(std::istreambuf_iterator<char>(in), {});
  }
  Text text;
  std::array<int, 256> number;
  number.fill(-1);
  for (const char c : bytes) {
    int& n = number[static_cast<unsigned char>(c)];
    if (n < 0) n = int(text.vocabulary++);
    text.tokens.push_back(n);
  }
  text.training_end = text.size() - text.size() / 10;
  return text;
}

}  // namespace tasks

// SPDX-License-Identifier: Apache-2.0
//
// How long something took, and how much longer it will: a line on the terminal that is rewritten
// twice a second, or, where standard error is a file, a line every half minute.

#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "gguf.hpp"

namespace lm {

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Progress {
 public:
  Progress(std::string unit, Index total)
      : unit_(std::move(unit)), total_(total), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Before something is printed in between.
  void clear() const {
    if (terminal_ && shown_ > 0) std::fputs("\r\033[K", stderr);
  }

  // `note`: what is known so far, like a running mean.
  void at(Index done, const std::string& note = "") {
    const double now = clock_.seconds();
    if (now - shown_ < (terminal_ ? 0.5 : 30) || done >= total_) return;
    shown_ = now;
    const double left = now * static_cast<double>(total_ - done) / static_cast<double>(done);
    std::fprintf(stderr, "%s%td of %td %s, %.0f s left%s%s%s", terminal_ ? "\r" : "", done, total_,
                 unit_.c_str(), left, note.empty() ? "" : ", ", note.c_str(),
                 terminal_ ? "\033[K" : "\n");
  }

 private:
  std::string unit_;
  Index total_;
  bool terminal_;
  Clock clock_;
  double shown_ = 0;
};

}  // namespace lm

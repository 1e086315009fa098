// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same everywhere: SplitMix64, started from a few words. Data, weights
// and dropout each draw from a stream named by (seed, what for, number), so nothing has to be kept
// when a run is stopped and resumed.

#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>

namespace tasks {

enum class Stream : std::uint64_t { weights, training, test, order, dropout, text };

class Random {
 public:
  explicit Random(std::initializer_list<std::uint64_t> words) {
    for (const std::uint64_t word : words) state_ = next() ^ (word * 0x9E3779B97F4A7C15u);
  }
  Random(std::uint64_t seed, Stream stream, std::uint64_t number = 0, std::uint64_t part = 0)
      : Random({seed, static_cast<std::uint64_t>(stream), number, part}) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }   // [0, 1)
  int below(int n) { return static_cast<int>(uniform() * n); }               // 0 ... n - 1
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace tasks

// SPDX-License-Identifier: Apache-2.0
//
// What the tests of tile primitives share: the levels of this machine, and memory for tiles and rows.

#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <heed/simd/dispatch.hpp>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "support/shapes.hpp"

namespace support {

using heed::Isa;
using heed::kKeys;
using heed::kRows;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kUntouched = 4321.f;

inline std::vector<Isa> levels() {
  std::vector<Isa> list;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (isa <= heed::simd::best_isa(heed::simd::this_cpu())) list.push_back(isa);
  }
  return list;
}
inline std::string level_name(const ::testing::TestParamInfo<Isa>& level) {
  return level.param == Isa::generic ? "Generic" : level.param == Isa::avx2 ? "Avx2" : "Avx512";
}

// Numbers at a cache line, as scratch is.
class Floats {
 public:
  explicit Floats(Index n, float value = 0)
      : data_(static_cast<float*>(::operator new(static_cast<std::size_t>(n + 1) * sizeof(float),
                                                 std::align_val_t{64}))), size_(n) {
    std::fill_n(data_, n, value);
  }
  Floats(const Floats&) = delete;
  ~Floats() { ::operator delete(data_, std::align_val_t{64}); }
  float* data() { return data_; }
  const float* data() const { return data_; }
  float& operator[](Index i) { return data_[i]; }
  float operator[](Index i) const { return data_[i]; }
  void randomise(Random& r) {
    for (Index i = 0; i < size_; ++i) data_[i] = static_cast<float>(r.normal());
  }

 private:
  float* data_;
  Index size_;
};

// Rows one after the other, one element off any alignment.
struct Table {
  std::vector<float> memory;
  std::vector<const float*> rows;
  Table(Random& r, Index n, Index width) : memory(static_cast<std::size_t>(n * width + 1)) {
    for (float& x : memory) x = static_cast<float>(r.normal());
    for (Index i = 0; i < n; ++i) rows.push_back(memory.data() + 1 + i * width);
  }
};

// A sum in double, and the sum of its terms' sizes, which its rounding is measured by.
struct Exact {
  double value = 0, size = 0;

  void add(double term) {
    value += term;
    size += std::abs(term);
  }
};
// start + what keys 0 ... n - 1 give a lane: sum_j tile[j][lane] values[j][d].
inline Exact weighted(float start, const Floats& tile, Index lane, const Table& values, Index d,
                      Index n) {
  Exact sum;
  sum.add(static_cast<double>(start));
  for (Index j = 0; j < n; ++j) {
    sum.add(static_cast<double>(tile[j * kRows + lane]) *
            static_cast<double>(values.rows[static_cast<std::size_t>(j)][d]));
  }
  return sum;
}

}  // namespace support

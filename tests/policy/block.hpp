// SPDX-License-Identifier: Apache-2.0
//
// A block of rows against tiles of keys, made by hand, so that a policy is tested without a kernel.

#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "heed/policy/concepts.hpp"
#include "support/shapes.hpp"

namespace heed::test {

// What a refusal says; empty if nothing is refused.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

inline std::vector<Index> range(Index first, Index count) {
  std::vector<Index> numbers(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] = first + i;
  return numbers;
}

// `count` ascending positions from `first`, with gaps of up to `gap`.
inline std::vector<Index> ascending(support::Random& random, Index first, Index count, Index gap) {
  std::vector<Index> numbers;
  for (Index i = 0; i < count; ++i) {
    numbers.push_back(first);
    first += random.integer(1, gap);
  }
  return numbers;
}

// Rows at the given positions, once for each of `stacked` query heads; dim and queries for scores
// that read them.
class Block {
 public:
  Block(const std::vector<Index>& positions, Index stacked = 1, Index dim = 3,
        std::uint64_t seed = 1) {
    support::Random random(seed);
    const auto n = static_cast<Index>(positions.size());
    rows.count = n * stacked;
    rows.heads = stacked + 2;
    rows.dim = dim;
    rows.base_scale = 1 / std::sqrt(static_cast<float>(dim));
    rows.one_head = stacked == 1;
    q_.resize(static_cast<std::size_t>(rows.count * dim));
    packed_.resize(static_cast<std::size_t>(kRows * dim));
    for (Index lane = 0; lane < rows.count; ++lane) {
      rows.head[lane] = lane / n + 1;
      rows.row[lane] = lane % n;
      rows.position[lane] = positions[static_cast<std::size_t>(lane % n)];
      rows.consecutive = rows.consecutive && rows.position[lane] == rows.position[0] + lane;
      rows.factor[lane] = static_cast<float>(random.uniform(0.5, 2));
      rows.unfold[lane] = 1 / (rows.base_scale * rows.factor[lane]);
      for (Index d = 0; d < dim; ++d) {
        const float x = static_cast<float>(random.normal());
        q_[static_cast<std::size_t>(lane * dim + d)] = x;
        packed_[static_cast<std::size_t>(d * kRows + lane)] =
            x * rows.base_scale * rows.factor[lane];
      }
    }
    rows.min_position = positions.front();
    rows.max_position = positions.back();
    rows.packed = packed_.data();
  }
  Block(const Block&) = delete;

  double q(Index lane, Index d) const {
    return static_cast<double>(q_[static_cast<std::size_t>(lane * rows.dim + d)]);
  }

  Rows rows;

 private:
  std::vector<float> q_, packed_;
};

inline Keys keys_at(const std::vector<Index>& positions, Index first_index = 0) {
  Keys keys;
  keys.count = static_cast<Index>(positions.size());
  keys.first = first_index;
  keys.position = positions.data();
  return keys;
}

// Calls forward on one tile that holds `before(lane, key)` and gives back what it holds then.
using Numbers = std::function<double(Index lane, Index key)>;
template <class Call>
std::vector<float> tile_after(const Block& block, const Keys& keys, const Numbers& before,
                              const Call& call) {
  std::vector<float> logits(static_cast<std::size_t>(kRows * kKeys), 0.0f);
  std::vector<float> spare(logits.size());
  for (Index j = 0; j < keys.count; ++j) {
    for (Index lane = 0; lane < block.rows.count; ++lane) {
      logits[static_cast<std::size_t>(j * kRows + lane)] = static_cast<float>(before(lane, j));
    }
  }
  Logits view{logits.data(), keys.count};
  call(Tile{block.rows, keys, view, nullptr, simd::kReachAll, spare.data()});
  return logits;
}

inline void expect_tile(const std::vector<float>& found, const Block& block, const Keys& keys,
                        const Numbers& expected, double tolerance) {
  for (Index j = 0; j < keys.count; ++j) {
    for (Index lane = 0; lane < block.rows.count; ++lane) {
      const double is = static_cast<double>(found[static_cast<std::size_t>(j * kRows + lane)]);
      ASSERT_NEAR(is, expected(lane, j), tolerance) << "lane " << lane << ", key " << j;
    }
  }
}

}  // namespace heed::test

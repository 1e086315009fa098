// SPDX-License-Identifier: Apache-2.0
//
// What scores by distance share: a column of terms per distance max(query - key, 0), one lane per
// row, of which a tile needs a contiguous run.
//
//   logit(lane, j) += column(min(max(position[lane] - position[j], 0), last))[lane]
//
// Tiles come newest first, so the run wanders outward, and inward on the way back. Columns are made
// when a tile first needs them and kept while the next one may, in memory that stays small however
// long the keys are.

#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "../core/buffer.hpp"
#include "concepts.hpp"

namespace heed::inline HEED_ABI::detail {

class Band {
 public:
  // make(first, count, out) writes the columns of distances first ... first + count - 1, count at
  // most kKeys, to out[count][kRows]. `last` is the distance whose column all farther ones share.
  template <class Make>
  void add(const Tile& tile, Index last, const Make& make) {
    const auto [low, high] = run(tile, last);
    hold(low, high, last, make);
    const float* columns = memory_.data() + (low - begin_) * kRows;
    if (low == high) return simd::forward().shift(tile.logits.data, tile.keys.count, columns);
    const Index rows = high - low + 1;
    pieces(tile, low, [&](Index first, Index count, const auto* start, const auto* offset) {
      const simd::Reach& reach = count == tile.keys.count ? tile.reach : simd::kReachAll;
      simd::forward().band(tile.logits.data + first * kRows, count, columns, rows, start, offset,
                           reach);
    });
  }

  // The adjoint: each column of collected() sums d loss / d logit over the pairs it was added to.
  // As long as the farthest distance seen asks for.
  void collect(const Tile& tile, Index last, const float* adjoint) {
    const auto [low, high] = run(tile, last);
    if (high >= columns()) {
      Buffer<float> larger((high + 1) * kRows);
      copy(larger.data(), collected_.data(), columns());
      std::fill(larger.data() + columns() * kRows, larger.data() + larger.size(), 0.0f);
      collected_ = std::move(larger);
    }
    float* const to = collected_.data() + low * kRows;
    if (low == high) return simd::backward().column_sum(to, adjoint, tile.keys.count);
    const Index rows = high - low + 1;
    pieces(tile, low, [&](Index first, Index count, const auto* start, const auto* offset) {
      simd::backward().band_adjoint(to, adjoint + first * kRows, count, rows, start, offset);
    });
  }
  float* collected() { return collected_.data(); }   // [columns()][kRows], from distance 0 on
  Index columns() const { return collected_.size() / kRows; }

 private:
  static constexpr Index kRoom = 4 * kKeys;   // columns; a tile of neighbours needs 127

  // The distances that a tile needs, ends included.
  static std::pair<Index, Index> run(const Tile& tile, Index last) {
    const Rows& rows = tile.rows;
    const Keys& keys = tile.keys;
    return {std::clamp<Index>(rows.min_position - keys.max_position(), 0, last),
            std::clamp<Index>(rows.max_position - keys.min_position(), 0, last)};
  }
  // f(first key, keys, start, key_offset): start[lane] - key_offset[i] is the distance beyond low.
  // 32-bit distances do in all but absurd tiles, which go key by key.
  template <class F>
  static void pieces(const Tile& tile, Index low, const F& f) {
    const Rows& rows = tile.rows;
    const Keys& keys = tile.keys;
    constexpr Index kFar = Index{1} << 29;
    const Index step = keys.max_position() - keys.min_position() < kFar ? keys.count : 1;
    for (Index first = 0; first < keys.count; first += step) {
      const Index origin = keys.position[first + step - 1];
      alignas(64) std::int32_t start[kRows] = {};
      alignas(64) std::int32_t offset[kKeys];
      for (Index lane = 0; lane < rows.count; ++lane) {
        start[lane] = static_cast<std::int32_t>(
            std::clamp<Index>(rows.position[lane] - origin - low, -kFar, kFar));
      }
      for (Index i = 0; i < step; ++i) {
        offset[i] = static_cast<std::int32_t>(keys.position[first + i] - origin);
      }
      f(first, step, start, offset);
    }
  }

  // Makes [low, high] present.
  template <class Make>
  void hold(Index low, Index high, Index last, const Make& make) {
    const Index needed = high + 1 - low;
    if (low < begin_ && high >= begin_ && needed <= memory_.size() / kRows) {   // inward
      const Index kept = std::min(end_, high + 1) - begin_, before = begin_ - low;
      copy(memory_.data() + before * kRows, memory_.data(), kept);
      for (Index n = 0; n < before; n += kKeys) {
        make(low + n, std::min(kKeys, before - n), memory_.data() + n * kRows);
      }
      begin_ = low;
      end_ = low + before + kept;
    } else if (low < begin_ || low > end_) {
      begin_ = end_ = low;
    }
    if (high + 1 - begin_ > memory_.size() / kRows) {
      const Index kept = end_ - low;
      const float* from = memory_.data() + (low - begin_) * kRows;
      if (needed > memory_.size() / kRows) {
        Buffer<float> larger(std::max(needed, std::min(last + 1, kRoom)) * kRows);
        copy(larger.data(), from, kept);
        memory_ = std::move(larger);
      } else {
        copy(memory_.data(), from, kept);
      }
      begin_ = low;
    }
    while (end_ <= high) {
      const Index count = std::min(high + 1 - end_, kKeys);
      make(end_, count, memory_.data() + (end_ - begin_) * kRows);
      end_ += count;
    }
  }
  static void copy(float* to, const float* from, Index columns) {
    if (columns == 0) return;
    std::memmove(to, from, sizeof(float) * static_cast<std::size_t>(columns * kRows));
  }

  Buffer<float> memory_, collected_;
  Index begin_ = 0, end_ = 0;   // the distances held
};

}  // namespace heed::inline HEED_ABI::detail

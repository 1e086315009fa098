// SPDX-License-Identifier: Apache-2.0
//
// Included once per instruction set by dispatch.hpp, without include guard: the primitives on
// tiles of logits, and the table of them all. table.hpp says what each one does.

#include "vector.inl"
#include "math.inl"
#include "matrix.inl"

namespace heed::inline HEED_ABI::simd::HEED_LEVEL {

inline void hide(float* tile, const LaneBits* visible, Index n) {
  const I lane_bit = splat(1) << lane_numbers();
  for (Index j = 0; j < n; ++j) {
    if (visible[j] == ~LaneBits{0}) continue;
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const I word = splat(std::int32_t(visible[j] >> (v * kLanes) & 0xffff));
      float* const at = tile + j * kRows + v * kLanes;
      store(at, (word & lane_bit) != 0 ? load(at) : splat(-INFINITY));
    }
  }
}

// For each column of the tile and each vector of lanes.
template <class Function>
HEED_INLINE void for_columns(float* tile, Index n, const Function& function) {
  for (Index j = 0; j < n; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const at = tile + j * kRows + v * kLanes;
      store(at, function(load(at), j, v * kLanes));
    }
  }
}

// The same, for the groups of lanes that see any of 16 keys.
template <class Function>
HEED_INLINE void for_reached(float* tile, Index n, const Reach& reach, const Function& function) {
  for (Index begin = 0, chunk = 0; begin < n; begin += kGroup, ++chunk) {
    const Index end = begin + kGroup < n ? begin + kGroup : n;
    const Index first = reach.first[chunk] * kGroup, last = reach.last[chunk] * kGroup;
    for (Index j = begin; j < end; ++j) {
      for (Index lane = first; lane < last; lane += kLanes) {
        float* const at = tile + j * kRows + lane;
        store(at, function(load(at), j, lane));
      }
    }
  }
}

inline void scale(float* tile, Index n, const float* factor) {
  for_columns(tile, n, [=](F x, Index, Index lane) { return x * load(factor + lane); });
}

inline void shift(float* tile, Index n, const float* term) {
  for_columns(tile, n, [=](F x, Index, Index lane) { return x + load(term + lane); });
}

inline void slope(float* tile, Index n, const float* slope, const float* lane_position,
                  const float* key_position, const Reach& reach) {
  for_reached(tile, n, reach, [=](F x, Index j, Index lane) {
    const F distance = load(lane_position + lane) - splat(key_position[j]);
    const F magnitude = from_bits(bits(distance) & 0x7fffffff);
    return fma(-load(slope + lane), magnitude, x);
  });
}

inline void band(float* tile, Index n, const float* band, Index rows, const std::int32_t* start,
                 const std::int32_t* key_offset, const Reach& reach) {
  const I last = splat(std::int32_t(rows - 1));
  for_reached(tile, n, reach, [=](F x, Index j, Index lane) {
    I row = load(start + lane) - splat(key_offset[j]);
    row = row < 0 ? I{} : row;
    row = row > last ? last : row;
    const I index = row * std::int32_t(kRows) + lane_numbers() + std::int32_t(lane);
    return x + gather(x, splat(-1), band, index);
  });
}

inline void soft_cap(float* tile, Index n, float cap, const Reach& reach) {
  const SoftCap function{splat(cap), splat(1.0f / cap)};
  for_reached(tile, n, reach, [=](F x, Index, Index) { return function(x); });
}

// (first half | second half) of x, each element twice; and x with neighbours exchanged.
#if HEED_LANES == 16
#define HEED_SHUFFLE(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
HEED_INLINE F twice_low(F x) { return HEED_SHUFFLE(x, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7); }
HEED_INLINE F twice_high(F x) {
  return HEED_SHUFFLE(x, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
}
HEED_INLINE F exchanged(F x) {
  return HEED_SHUFFLE(x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
}
#undef HEED_SHUFFLE
#elif HEED_LANES == 8
HEED_INLINE F twice_low(F x) { return __builtin_shufflevector(x, x, 0, 0, 1, 1, 2, 2, 3, 3); }
HEED_INLINE F twice_high(F x) { return __builtin_shufflevector(x, x, 4, 4, 5, 5, 6, 6, 7, 7); }
HEED_INLINE F exchanged(F x) { return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6); }
#else
HEED_INLINE F twice_low(F x) { return __builtin_shufflevector(x, x, 0, 0, 1, 1); }
HEED_INLINE F twice_high(F x) { return __builtin_shufflevector(x, x, 2, 2, 3, 3); }
HEED_INLINE F exchanged(F x) { return __builtin_shufflevector(x, x, 1, 0, 3, 2); }
#endif

inline void rotate(float* x, Index width, const float* cosine, const float* sine, bool halves,
                   bool adjoint) {
  const Index half = width / 2;
  const float sign = adjoint ? -1.0f : 1.0f;
  const Index first_step = halves ? 1 : 2, second = halves ? half : 1;
  // (a, b) -> (a c - b s, b c + a s), pairs (i, i + half) or (2i, 2i + 1).
  const F odd = (lane_numbers() & 1) != 0 ? splat(sign) : splat(-sign);
  Index i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const F c = load(cosine + i), s = load(sine + i);
    if (halves) {
      const F a = load(x + i), b = load(x + half + i);
      store(x + i, fma(a, c, -(b * s * sign)));
      store(x + half + i, fma(b, c, a * s * sign));
    } else {
      const F a = load(x + 2 * i), b = load(x + 2 * i + kLanes);
      store(x + 2 * i, fma(a, twice_low(c), exchanged(a) * twice_low(s) * odd));
      store(x + 2 * i + kLanes, fma(b, twice_high(c), exchanged(b) * twice_high(s) * odd));
    }
  }
  for (; i < half; ++i) {
    const float a = x[i * first_step], b = x[i * first_step + second];
    const float c = cosine[i], s = sine[i] * sign;
    x[i * first_step] = a * c - b * s;
    x[i * first_step + second] = a * s + b * c;
  }
}

// Where a lane stands in its column of z: the value at `row` and at the next two rows.
struct Cell {
  F row, z0, z1, z2;
};

HEED_INLINE F z_at(F other, I mask, const float* z, F row, Index lane) {
  const I index = to_int(row) * std::int32_t(kRows) + lane_numbers() + std::int32_t(lane);
  return gather(other, mask, z, index);
}

// Positions only rise, mostly by less than a row: then two of three values are there already.
HEED_INLINE void move_to(Cell& cell, const float* z, F row, Index lane) {
  const I moved = row != cell.row;
  if (!any(moved)) return;
  if (any(row > cell.row + 1.0f)) {
    cell.z0 = z_at(cell.z0, moved, z, row, lane);
    cell.z1 = z_at(cell.z1, moved, z + kRows, row, lane);
  } else {
    cell.z0 = moved ? cell.z1 : cell.z0;
    cell.z1 = moved ? cell.z2 : cell.z1;
  }
  cell.z2 = z_at(cell.z2, moved, z + 2 * kRows, row, lane);
  cell.row = row;
}

// One vector of lanes, keys newest first. Over a few keys with small gates a position stays within
// two rows of the table: then one look-up serves them all, with the same bits as a look-up per
// key, since p - row and p - row - 1 are exact.
HEED_INLINE void gate_walk_lanes(float* tile, const float* gates, Index n, const GateWalk& walk,
                                 const Reach& reach, Index lane) {
  constexpr Index kChunk = 8;
  static_assert(kGroup % kChunk == 0);
  const F carry = load(walk.carry + lane), low = load(walk.low + lane);
  const F last = splat(walk.last);
  const I open = ~(carry >= last);   // lanes that are not settled; NaN never is
  if (!any(open)) return;
  const F own = walk.own_token ? splat(1.0f) : F{};
  const F start = floor(min(carry + low, last));   // min sends NaN to the last row
  const I every = splat(-1);
  Cell cell{start, z_at(F{}, every, walk.z, start, lane), z_at(F{}, every, walk.z + kRows, start, lane),
            z_at(F{}, every, walk.z + 2 * kRows, start, lane)};
  F total{};
  const Index group = lane / kGroup;
  for (Index end = n, begin; end > 0; end = begin) {
    begin = (end - 1) / kChunk * kChunk;
    const Index chunk = begin / kGroup;
    if (group < reach.first[chunk] || group >= reach.last[chunk]) continue;   // all gates are 0
    const Index count = end - begin;
    F gate[kChunk], position[kChunk];
#pragma GCC unroll 8
    for (Index i = 0; i < kChunk; ++i) {
      gate[i] = i < count ? sigmoid(load(gates + (end - 1 - i) * kRows + lane)) : F{};
    }
#pragma GCC unroll 8
    for (Index i = 0; i < kChunk; ++i) {
      const F sum = carry + (low + fma(own, gate[i], total));
      position[i] = sum > last ? last : sum;   // NaN stays NaN
      total += gate[i];
    }
    move_to(cell, walk.z, floor(min(position[0], last)), lane);
    float* const newest = tile + (end - 1) * kRows + lane;
    if (!any(position[kChunk - 1] >= cell.row + 2.0f)) {
      const F step = cell.z1 - cell.z0, next_step = cell.z2 - cell.z1;
#pragma GCC unroll 8
      for (Index i = 0; i < kChunk; ++i) {
        if (i >= count) break;
        const F t = position[i] - cell.row;
        const F bias = t >= 1.0f ? fma(t - 1.0f, next_step, cell.z1) : fma(t, step, cell.z0);
        const F x = load(newest - i * kRows);
        store(newest - i * kRows, open ? x + bias : x);
      }
      continue;
    }
    for (Index i = 0; i < count; ++i) {
      move_to(cell, walk.z, floor(min(position[i], last)), lane);
      const F bias = fma(position[i] - cell.row, cell.z1 - cell.z0, cell.z0);
      const F x = load(newest - i * kRows);
      store(newest - i * kRows, open ? x + bias : x);
    }
  }
  // (carry, low) + total without rounding; a settled lane's carry is final.
  const F sum = carry + total;
  const F part = sum - carry;
  const F error = (carry - (sum - part)) + (total - part);
  store(walk.carry + lane, open ? sum : carry);
  store(walk.low + lane, open ? low + error : low);
}

inline void gate_walk(float* tile, const float* gates, Index n, const GateWalk& walk,
                      const Reach& reach) {
  for (Index lane = 0; lane < kRows; lane += kLanes) {
    gate_walk_lanes(tile, gates, n, walk, reach, lane);
  }
}

template <class Table>
inline constexpr Table kForward = {
    pack,     product,    hide,  absorb,     weighted_sum, gate_walk, scale,    shift,
    slope,    band,       soft_cap, rotate, all_finite,   weigh,     exp2_all, sigmoid_all,
    tanh_all,
};

}  // namespace heed::inline HEED_ABI::simd::HEED_LEVEL

// SPDX-License-Identifier: Apache-2.0
//
// Included once per instruction set: decode_table.hpp's primitives, for few query rows.
//
//   dots          kLanes sums at a time (keys x rows), each a vector along dim; a tree of shuffles
//                 and adds turns them into one vector of results.
//   absorb        decode_softmax.inl
//   weighted_sum  1 to 4 rows hold their sums in registers while a value row passes once.
//
// What will be read next is fetched between the arithmetic, a little at a time: a burst would fill
// the queue of outstanding misses, and the arithmetic would wait behind it.

#include "decode_softmax.inl"

namespace heed::inline HEED_ABI::simd::HEED_LEVEL {

HEED_INLINE void prefetch(const float* row, Index first, Index last) {
  for (Index d = first; d < last; d += 16) __builtin_prefetch(row + d, 0, 2);
}

// A vector is [sums][parts]. Two become one of twice the sums and half the parts: half 0 plus
// half 1, so each sum is the same whatever stands beside it.
template <int parts, int half>
struct Halves {
  static constexpr int at(int lane) {
    constexpr int sums = kLanes / parts, left = parts / 2;
    const int sum = lane / left, part = lane % left;
    return (sum < sums ? 0 : kLanes) + sum % sums * parts + half * left + part;
  }
};
// Lane i of the result: the sum of x[i]'s lanes.
template <int parts = kLanes>
HEED_INLINE F sums(F* x) {
  if constexpr (parts == 1) {
    return x[0];
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < parts / 2; ++i) {
      x[i] = pick<Halves<parts, 0>>(x[2 * i], x[2 * i + 1]) +
             pick<Halves<parts, 1>>(x[2 * i], x[2 * i + 1]);
    }
    return sums<parts / 2>(x);
  }
}

// `rows` queries against n keys, kLanes / rows at a time; the last key stands for those that lack.
template <int rows>
HEED_INLINE void dots_rows(float* tile, const float* queries, Index width, const float* const* keys,
                           Index n, const Ahead& ahead) {
  constexpr int together = kLanes / rows;
  for (Index first = 0; first < n; first += together) {
    const float* key[together];
    F sum[kLanes];
#pragma GCC unroll 16
    for (int j = 0; j < together; ++j) key[j] = keys[first + j < n ? first + j : n - 1];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) sum[i] = F{};
    const Index fetched = ahead.count - first < together ? ahead.count - first : together;
    for (Index d = 0; d < width; d += kLanes) {
      F q[rows];
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) q[r] = load(queries + r * width + d);
#pragma GCC unroll 16
      for (int j = 0; j < together; ++j) {
        const F k = load(key[j] + d);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) sum[j * rows + r] = fma(q[r], k, sum[j * rows + r]);
      }
      if (d % 16 != 0 || d >= ahead.width) continue;
      for (Index j = 0; j < fetched; ++j) __builtin_prefetch(ahead.rows[first + j] + d, 0, 2);
    }
    for (Index j = 0; j < fetched; ++j) prefetch(ahead.rows[first + j], width, ahead.width);
    alignas(64) float result[kLanes];
    store(result, sums(sum));
    const Index some = n - first < together ? n - first : together;
    for (Index j = 0; j < some; ++j) {
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) tile[(first + j) * kRows + r] = result[j * rows + r];
    }
  }
}

inline void dots(float* tile, const float* queries, Index count, Index width,
                 const float* const* keys, Index n, const Ahead& ahead) {
  Ahead once = ahead;
  for (Index lane = 0; lane < count;) {
    const float* const q = queries + lane * width;
    const Index rows = count - lane >= 3 ? 4 : count - lane;   // three count as four
    switch (rows) {
      case 4: dots_rows<4>(tile + lane, q, width, keys, n, once); break;
      case 2: dots_rows<2>(tile + lane, q, width, keys, n, once); break;
      default: dots_rows<1>(tile + lane, q, width, keys, n, once); break;
    }
    lane += rows;
    once = {};
  }
}

template <int rows, int vectors>
HEED_INLINE void weighted_few(float* out, Index width, const float* tile,
                              const float* const* values, Index column, Index n, const float* alpha,
                              const Ahead& ahead) {
  F total[rows][vectors];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      total[r][v] = load(out + r * width + column + v * kLanes) * alpha[r];
    }
  }
  // The lines of these columns that no columns before have fetched.
  const Index end = column + vectors * kLanes, from = (column + 15) / 16 * 16;
  const Index to = end == width || end > ahead.width ? ahead.width : end;
  for (Index j = 0; j < n; ++j) {
    if (j < ahead.count) prefetch(ahead.rows[j], from, to);
    const float* const value = values[j] + column;
    F x[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) x[v] = load(value + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const F p = splat(tile[j * kRows + r]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) total[r][v] = fma(p, x[v], total[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) store(out + r * width + column + v * kLanes, total[r][v]);
  }
}

template <int rows>
HEED_INLINE void weighted_columns(float* out, Index width, const float* tile,
                                  const float* const* values, Index n, const float* alpha,
                                  const Ahead& ahead) {
  constexpr int registers = HEED_LANES == 16 ? 16 : 8, fit = registers / (rows == 3 ? 4 : rows);
  constexpr int most = fit < 8 ? fit : 8;
  Index column = 0;
  for (; column + most * kLanes <= width; column += most * kLanes) {
    weighted_few<rows, most>(out, width, tile, values, column, n, alpha, ahead);
  }
  if constexpr (most > 4) {
    for (; column + 4 * kLanes <= width; column += 4 * kLanes) {
      weighted_few<rows, 4>(out, width, tile, values, column, n, alpha, ahead);
    }
  }
  for (; column < width; column += kLanes) {
    weighted_few<rows, 1>(out, width, tile, values, column, n, alpha, ahead);
  }
}

inline void weighted_sum_few(float* out, Index width, const float* tile,
                             const float* const* values, Index n, const float* alpha, Index first,
                             Index last, const Ahead& ahead) {
  Ahead once = ahead;
  for (Index lane = first; lane < last;) {
    float* const o = out + lane * width;
    const float* const t = tile + lane;
    const float* const a = alpha + lane;
    const Index rows = last - lane < 4 ? last - lane : 4;
    switch (rows) {
      case 4: weighted_columns<4>(o, width, t, values, n, a, once); break;
      case 3: weighted_columns<3>(o, width, t, values, n, a, once); break;
      case 2: weighted_columns<2>(o, width, t, values, n, a, once); break;
      default: weighted_columns<1>(o, width, t, values, n, a, once); break;
    }
    lane += rows;
    once = {};
  }
}

inline void keep(float* kept, Index stride, const float* tile, Index n, Index count) {
  typedef std::int32_t I4 __attribute__((vector_size(16), aligned(4), may_alias));
  for (Index lane = 0; lane < count; lane += kFew) {
    const I4 used = I4{0, 1, 2, 3} < std::int32_t(count - lane);
    const float* from = tile + lane;
    float* to = kept + lane;
#pragma GCC unroll 4
    for (Index j = 0; j < n; ++j, from += kRows, to += stride) {
      *reinterpret_cast<I4*>(to) = *reinterpret_cast<const I4*>(from) & used;
    }
  }
}

HEED_INLINE F4 fold(F4 a, F4 b, F4 c, F4 d) {
  // (a0 + a2, b0 + b2, a1 + a3, b1 + b3), the same of c and d, then both halves.
  const F4 ab =
      __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const F4 cd =
      __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

inline void share(float* to, const float* kept, Index stride, Index n, const float* factor) {
  const auto weighted = [=](Index j) {
    F4 sum = *reinterpret_cast<const F4*>(kept + j * stride) * *reinterpret_cast<const F4*>(factor);
    for (Index lane = kFew; lane < stride; lane += kFew) {
      sum += *reinterpret_cast<const F4*>(kept + j * stride + lane) *
             *reinterpret_cast<const F4*>(factor + lane);
    }
    return sum;
  };
  Index j = 0;
  for (; j + 4 <= n; j += 4) {
    *reinterpret_cast<F4*>(to + j) =
        fold(weighted(j), weighted(j + 1), weighted(j + 2), weighted(j + 3));
  }
  for (; j < n; ++j) {
    const F4 sum = weighted(j);
    to[j] = (sum[0] + sum[2]) + (sum[1] + sum[3]);
  }
}

template <class Table>
inline constexpr Table kDecode = {dots, absorb_few, weighted_sum_few, keep, share};

}  // namespace heed::inline HEED_ABI::simd::HEED_LEVEL

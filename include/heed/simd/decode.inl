// SPDX-License-Identifier: Apache-2.0
//
// Included once per instruction set: decode_table.hpp's primitives, for few query rows.
//
//   dots          HEED_LANES sums at a time (rows x keys), each a vector along dim; a tree of
//                 shuffles and adds turns them into one vector of results.
//   weighted_sum  1 to 4 rows hold their sums in registers while a value row passes once.

namespace heed::inline HEED_ABI::simd::HEED_LEVEL {

HEED_INLINE void prefetch(const float* row, Index width) {
  for (Index d = 0; d < width; d += 16) __builtin_prefetch(row + d, 0, 2);
}

HEED_INLINE F4 fold(F4 a, F4 b, F4 c, F4 d) {
  // (a0 + a2, b0 + b2, a1 + a3, b1 + b3), the same of c and d, then both halves.
  const F4 ab =
      __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const F4 cd =
      __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

// Lane i of the result: the sum of x[i]'s lanes. Sums are formed as upper half plus lower half
// down to one lane, so each is the same whatever stands beside it.
#if HEED_LANES == 16
HEED_INLINE void sums(float* to, const F* x) {
  F half[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const F a = x[i], b = x[i + 8];
    half[i] =
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  F quarter[4];   // blocks of four lanes: x[i], x[i + 4], x[i + 8], x[i + 12]
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const F a = half[i], b = half[i + 4];
    quarter[i] =
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
  }
  const F ab = __builtin_shufflevector(quarter[0], quarter[1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9,
                                       25, 12, 28, 13, 29) +
               __builtin_shufflevector(quarter[0], quarter[1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26,
                                       11, 27, 14, 30, 15, 31);
  const F cd = __builtin_shufflevector(quarter[2], quarter[3], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9,
                                       25, 12, 28, 13, 29) +
               __builtin_shufflevector(quarter[2], quarter[3], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26,
                                       11, 27, 14, 30, 15, 31);
  store(to, __builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28,
                                    29) +
                __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15,
                                        30, 31));
  // Blocks hold x[0..3], x[4..7], x[8..11], x[12..15].
}
#elif HEED_LANES == 8
HEED_INLINE void sums(float* to, const F* x) {
  F half[4];   // blocks of four lanes: x[i], x[i + 4]
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    half[i] = __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11) +
              __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  const F ab = __builtin_shufflevector(half[0], half[1], 0, 8, 1, 9, 4, 12, 5, 13) +
               __builtin_shufflevector(half[0], half[1], 2, 10, 3, 11, 6, 14, 7, 15);
  const F cd = __builtin_shufflevector(half[2], half[3], 0, 8, 1, 9, 4, 12, 5, 13) +
               __builtin_shufflevector(half[2], half[3], 2, 10, 3, 11, 6, 14, 7, 15);
  store(to, __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15));
}
#else
HEED_INLINE void sums(float* to, const F* x) {
  *reinterpret_cast<F4*>(to) =
      fold(reinterpret_cast<const F4&>(x[0]), reinterpret_cast<const F4&>(x[1]),
           reinterpret_cast<const F4&>(x[2]), reinterpret_cast<const F4&>(x[3]));
}
#endif

// `rows` queries against kLanes / rows keys. The last key may stand several times.
template <int rows>
HEED_INLINE void dots_step(float* tile, const float* queries, Index width, const float* const* keys,
                           Index n) {
  constexpr int together = kLanes / rows;
  F sum[kLanes];
  const float* key[together];
#pragma GCC unroll 16
  for (int j = 0; j < together; ++j) key[j] = keys[j < n ? j : n - 1];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) sum[i] = F{};
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
  }
  alignas(64) float result[kLanes];
  sums(result, sum);
  const int count = n < together ? int(n) : together;
  for (int j = 0; j < count; ++j) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) tile[j * kRows + r] = result[j * rows + r];
  }
}

template <int rows>
HEED_INLINE void dots_rows(float* tile, const float* queries, Index width, const float* const* keys,
                           Index n, const Ahead& ahead) {
  constexpr Index together = kLanes / rows;
  for (Index j = 0; j < n; j += together) {
    const Index some = n - j < together ? n - j : together;
    if (ahead.rows != nullptr) {
      for (Index i = j; i < j + some; ++i) prefetch(ahead.rows[i], ahead.width);
    }
    dots_step<rows>(tile + j * kRows, queries, width, keys + j, some);
  }
}

inline void dots(float* tile, const float* queries, Index count, Index width,
                 const float* const* keys, Index n, const Ahead& ahead) {
  Ahead once = ahead;
  for (Index lane = 0; lane < count;) {
    const float* const q = queries + lane * width;
    const Index left = count - lane;
    if (left >= 3) {
      dots_rows<4>(tile + lane, q, width, keys, n, once);
      lane += 4;
    } else if (left == 2) {
      dots_rows<2>(tile + lane, q, width, keys, n, once);
      lane += 2;
    } else {
      dots_rows<1>(tile + lane, q, width, keys, n, once);
      lane += 1;
    }
    once.rows = nullptr;
  }
}

inline void absorb_few(float* tile, Index n, const Softmax& state, float* alpha, Index count) {
  for (Index lane = 0; lane < count; lane += kLanes) {
    if (state.moment != nullptr) {
      absorb_lanes<true>(tile, n, state, alpha, kReachAll, lane);
    } else {
      absorb_lanes<false>(tile, n, state, alpha, kReachAll, lane);
    }
  }
}

template <int rows, int vectors>
HEED_INLINE void weighted_few(float* out, Index width, const float* tile,
                              const float* const* values, Index column, Index n, const float* alpha,
                              const Ahead& ahead) {
  F total[rows][vectors];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      total[r][v] = load(out + r * width + column + v * kLanes) * alpha[r];
    }
  }
  for (Index j = 0; j < n; ++j) {
    if (ahead.rows != nullptr) prefetch(ahead.rows[j], ahead.width);
    const float* const value = values[j] + column;
    F x[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) x[v] = load(value + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const F p = splat(tile[j * kRows + r]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) total[r][v] = fma(p, x[v], total[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(out + r * width + column + v * kLanes, total[r][v]);
  }
}

template <int rows>
HEED_INLINE void weighted_columns(float* out, Index width, const float* tile,
                                  const float* const* values, Index n, const float* alpha,
                                  Ahead ahead) {
  constexpr int most = HEED_LANES == 16 ? 4 : HEED_LANES == 8 ? 2 : 2;
  Index column = 0;
  for (; column + most * kLanes <= width; column += most * kLanes) {
    weighted_few<rows, most>(out, width, tile, values, column, n, alpha, ahead);
    ahead.rows = nullptr;
  }
  for (; column < width; column += kLanes) {
    weighted_few<rows, 1>(out, width, tile, values, column, n, alpha, ahead);
    ahead.rows = nullptr;
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
    once.rows = nullptr;
  }
}

inline void keep(float* kept, Index stride, const float* tile, Index n, Index count) {
  for (Index j = 0; j < n; ++j) {
    Index lane = 0;
    for (; lane + kFew <= count; lane += kFew) {
      *reinterpret_cast<F4*>(kept + j * stride + lane) =
          *reinterpret_cast<const F4*>(tile + j * kRows + lane);
    }
    for (; lane < count || lane % kFew != 0; ++lane) {
      kept[j * stride + lane] = lane < count ? tile[j * kRows + lane] : 0.0f;
    }
  }
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

// SPDX-License-Identifier: Apache-2.0
//
// Included once per instruction set: the two products of attention and what prepares them.
//
//   product       lanes are rows: a vector of the packed queries times one broadcast key element.
//                 Keys are read as they stand, nothing is packed per key.
//   weighted_sum  lanes are value columns: a broadcast weight times a vector of a value row.
//
// Both hold their sums in registers: 16 with AVX-512 (4 x 4), 12 otherwise (2 x 6).

namespace heed::inline HEED_ABI::simd::HEED_LEVEL {

// 4 x 4 blocks, so that rows are read and columns written in whole vectors of four.
inline void pack(float* packed, const float* const* rows, const float* factor, Index count,
                 Index dim) {
  Index lane = 0;
  for (; lane + 4 <= count; lane += 4) {
    const float* const r0 = rows[lane];
    const float* const r1 = rows[lane + 1];
    const float* const r2 = rows[lane + 2];
    const float* const r3 = rows[lane + 3];
    const F4 scale = *reinterpret_cast<const F4*>(factor + lane);
    Index d = 0;
    for (; d + 4 <= dim; d += 4) {
      const F4 a = *reinterpret_cast<const F4*>(r0 + d), b = *reinterpret_cast<const F4*>(r1 + d);
      const F4 c = *reinterpret_cast<const F4*>(r2 + d), e = *reinterpret_cast<const F4*>(r3 + d);
      const F4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const F4 ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const F4 ce0 = __builtin_shufflevector(c, e, 0, 4, 1, 5);
      const F4 ce1 = __builtin_shufflevector(c, e, 2, 6, 3, 7);
      const auto put = [&](Index at, F4 x) {
        *reinterpret_cast<F4*>(packed + (d + at) * kRows + lane) = x * scale;
      };
      put(0, __builtin_shufflevector(ab0, ce0, 0, 1, 4, 5));
      put(1, __builtin_shufflevector(ab0, ce0, 2, 3, 6, 7));
      put(2, __builtin_shufflevector(ab1, ce1, 0, 1, 4, 5));
      put(3, __builtin_shufflevector(ab1, ce1, 2, 3, 6, 7));
    }
    for (; d < dim; ++d) {
      for (Index i = 0; i < 4; ++i) packed[d * kRows + lane + i] = rows[lane + i][d] * factor[lane + i];
    }
  }
  for (; lane < kRows; ++lane) {
    for (Index d = 0; d < dim; ++d) {
      packed[d * kRows + lane] = lane < count ? rows[lane][d] * factor[lane] : 0.0f;
    }
  }
}

template <int vectors, int keys_together>
HEED_INLINE void product_step(float* tile, const float* packed, Index dim, const float* const* keys) {
  F sum[keys_together][vectors];
  const float* key[keys_together];
#pragma GCC unroll 16
  for (int j = 0; j < keys_together; ++j) {
    key[j] = keys[j];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[j][v] = F{};
  }
  for (Index d = 0; d < dim; ++d) {
    F q[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) q[v] = load(packed + d * kRows + v * kLanes);
#pragma GCC unroll 16
    for (int j = 0; j < keys_together; ++j) {
      const F k = splat(key[j][d]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[j][v] = fma(q[v], k, sum[j][v]);
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < keys_together; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(tile + j * kRows + v * kLanes, sum[j][v]);
  }
}

// Keys [begin, end) against `vectors` vectors of lanes, most keys at a time first.
template <int vectors, int keys_together>
HEED_INLINE void product_keys(float* tile, const float* packed, Index dim, const float* const* keys,
                              Index begin, Index end) {
  Index j = begin;
  for (; j + keys_together <= end; j += keys_together) {
    product_step<vectors, keys_together>(tile + j * kRows, packed, dim, keys + j);
  }
  if constexpr (keys_together > 4) {
    for (; j + 4 <= end; j += 4) {
      product_step<vectors, 4>(tile + j * kRows, packed, dim, keys + j);
    }
  }
  if (j + 2 <= end) {
    product_step<vectors, 2>(tile + j * kRows, packed, dim, keys + j);
    j += 2;
  }
  if (j < end) product_step<vectors, 1>(tile + j * kRows, packed, dim, keys + j);
}

inline void product(float* tile, const float* packed, Index dim, const float* const* keys, Index n,
                    const Reach& reach) {
  for (Index chunk = 0; chunk * kGroup < n;) {
    // Chunks of equal reach are one stretch of keys.
    Index next = chunk + 1;
    while (next * kGroup < n && reach.first[next] == reach.first[chunk] &&
           reach.last[next] == reach.last[chunk]) {
      ++next;
    }
    const Index begin = chunk * kGroup, end = next * kGroup < n ? next * kGroup : n;
    const Index first = reach.first[chunk], last = reach.last[chunk];
    chunk = next;
    if (last <= first) continue;
#if HEED_LANES == 16
    float* const t = tile + first * kGroup;
    const float* const q = packed + first * kGroup;
    switch (last - first) {
      case 4: product_keys<4, 4>(t, q, dim, keys, begin, end); break;
      case 3: product_keys<3, 4>(t, q, dim, keys, begin, end); break;
      case 2: product_keys<2, 8>(t, q, dim, keys, begin, end); break;
      default: product_keys<1, 16>(t, q, dim, keys, begin, end); break;
    }
#else
    for (Index lane = first * kGroup; lane < last * kGroup; lane += 2 * kLanes) {
      product_keys<2, 6>(tile + lane, packed + lane, dim, keys, begin, end);
    }
#endif
  }
}

template <int rows, int vectors>
HEED_INLINE void weighted_step(float* out, Index width, const float* tile,
                               const float* const* values, Index column, Index begin, Index end,
                               const float* alpha) {
  F sum[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = load(out + r * width + v * kLanes) * alpha[r];
  }
  for (Index j = begin; j < end; ++j) {
    F x[vectors];
    const float* const value = values[j] + column;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) x[v] = load(value + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const F p = splat(tile[j * kRows + r]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = fma(p, x[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(out + r * width + v * kLanes, sum[r][v]);
  }
}

// Rows [lane, end_lane) for one stretch of columns.
template <int rows, int vectors>
HEED_INLINE void weighted_rows(float* out, Index width, const float* tile,
                               const float* const* values, Index column, Index begin, Index end,
                               const float* alpha, Index lane, Index end_lane) {
  for (; lane + rows <= end_lane; lane += rows) {
    weighted_step<rows, vectors>(out + lane * width + column, width, tile + lane, values, column,
                                 begin, end, alpha + lane);
  }
  if constexpr (rows > 4) {
    for (; lane + 4 <= end_lane; lane += 4) {
      weighted_step<4, vectors>(out + lane * width + column, width, tile + lane, values, column,
                                begin, end, alpha + lane);
    }
  }
  for (; lane < end_lane; ++lane) {
    weighted_step<1, vectors>(out + lane * width + column, width, tile + lane, values, column,
                              begin, end, alpha + lane);
  }
}

inline void weighted_sum(float* out, Index width, const float* tile, const float* const* values,
                         Index n, const float* alpha, const Reach& reach, Index first, Index last) {
  for (Index group = first / kGroup; group * kGroup < last; ++group) {
    // The keys that any lane of the group sees, to whole chunks; hidden ones within weigh 0.
    Index begin = n, end = 0;
    for (Index chunk = 0; chunk * kGroup < n; ++chunk) {
      if (group < reach.first[chunk] || group >= reach.last[chunk]) continue;
      begin = begin < chunk * kGroup ? begin : chunk * kGroup;
      end = (chunk + 1) * kGroup < n ? (chunk + 1) * kGroup : n;
    }
    if (begin > end) begin = end;
    const Index lane = group * kGroup > first ? group * kGroup : first;
    const Index end_lane = (group + 1) * kGroup < last ? (group + 1) * kGroup : last;
    Index column = 0;
#if HEED_LANES == 16
    for (; column + 64 <= width; column += 64) {
      weighted_rows<4, 4>(out, width, tile, values, column, begin, end, alpha, lane, end_lane);
    }
    if (column + 48 <= width) {
      weighted_rows<4, 3>(out, width, tile, values, column, begin, end, alpha, lane, end_lane);
      column += 48;
    }
    if (column + 32 <= width) {
      weighted_rows<8, 2>(out, width, tile, values, column, begin, end, alpha, lane, end_lane);
      column += 32;
    }
    if (column + 16 <= width) {
      weighted_rows<16, 1>(out, width, tile, values, column, begin, end, alpha, lane, end_lane);
    }
#else
    for (; column + 2 * kLanes <= width; column += 2 * kLanes) {
      weighted_rows<6, 2>(out, width, tile, values, column, begin, end, alpha, lane, end_lane);
    }
#endif
  }
}

// A float is finite when its exponent is not all ones; x * 0 is NaN or 0, so sums of it tell.
inline bool all_finite(const float* const* rows, Index n, Index width) {
  for (Index j = 0; j < n; ++j) {
    F zero{};
    Index d = 0;
    for (; d + kLanes <= width; d += kLanes) zero += load(rows[j] + d) * 0.0f;
    if (any(zero != zero)) return false;
    float rest = 0;
    for (; d < width; ++d) rest += rows[j][d] * 0.0f;
    if (rest != rest) return false;
  }
  return true;
}

}  // namespace heed::inline HEED_ABI::simd::HEED_LEVEL

// SPDX-License-Identifier: Apache-2.0
//
// Included once per instruction set: the softmax of a tile with few query rows. A vector holds four
// lanes of kLanes / 4 keys ("quads"), so with four query heads per kv head no lane is idle. The
// order of sums over keys depends on the number of keys alone.

namespace heed::inline HEED_ABI::simd::HEED_LEVEL {

// Lane i of the result is a, b seen as one array at Indices::at(i).
template <class Indices, std::size_t... lane>
HEED_INLINE F pick(F a, F b, std::index_sequence<lane...>) {
  return __builtin_shufflevector(a, b, Indices::at(int(lane))...);
}
template <class Indices>
HEED_INLINE F pick(F a, F b) {
  return pick<Indices>(a, b, std::make_index_sequence<kLanes>());
}

// Four lanes of kLanes / 4 keys, [keys][4].
inline constexpr int kQuads = kLanes / 4;
template <int by>
struct Turned {   // by quads
  static constexpr int at(int lane) { return (lane + 4 * by) % kLanes; }
};
HEED_INLINE F repeat_four(const float* x) {
#if HEED_LANES == 4
  return load(x);
#else
  const F4 four = *reinterpret_cast<const F4*>(x);
#if HEED_LANES == 8
  return __builtin_shufflevector(four, four, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return __builtin_shufflevector(four, four, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
#endif
#endif
}
// Summed over the keys, in every quad.
HEED_INLINE F over_keys(F x) {
  if constexpr (kQuads > 2) x += pick<Turned<kQuads / 2>>(x, x);
  if constexpr (kQuads > 1) x += pick<Turned<1>>(x, x);
  return x;
}
HEED_INLINE void store_four(float* to, F x) {
#if HEED_LANES == 4
  store(to, x);
#else
  *reinterpret_cast<F4*>(to) = __builtin_shufflevector(x, x, 0, 1, 2, 3);
#endif
}
template <int first>
HEED_INLINE void store_quads(float* tile, F x) {   // from key `first` on
#if HEED_LANES == 4
  *reinterpret_cast<F4*>(tile) = x;
#else
  if constexpr (first < kQuads) {
    *reinterpret_cast<F4*>(tile + first * kRows) =
        __builtin_shufflevector(x, x, 4 * first, 4 * first + 1, 4 * first + 2, 4 * first + 3);
    store_quads<first + 1>(tile, x);
  }
#endif
}

// Of keys from j on; those beyond n are as if hidden.
HEED_INLINE F4 quad(const float* tile, Index j, Index n) {
  return j < n ? *reinterpret_cast<const F4*>(tile + j * kRows) : F4{} - INFINITY;
}
HEED_INLINE F load_quads(const float* tile, Index j, Index n) {
#if HEED_LANES == 4
  return quad(tile, j, n);
#else
  const F4 a = quad(tile, j, n), b = quad(tile, j + 1, n);
  const auto ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
#if HEED_LANES == 8
  return ab;
#else
  const F4 c = quad(tile, j + 2, n), d = quad(tile, j + 3, n);
  const auto cd = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
#endif
}

template <bool with_moment>
HEED_INLINE void absorb_four(float* tile, Index n, const Softmax& state, float* alpha) {
  alignas(64) float quads[kKeys * 4];
  F top[2] = {splat(-INFINITY), splat(-INFINITY)};
  const Index even = (n + 2 * kQuads - 1) / (2 * kQuads) * (2 * kQuads);
  for (Index j = 0; j < even; j += 2 * kQuads) {
#pragma GCC unroll 2
    for (int u = 0; u < 2; ++u) {
      const F x = load_quads(tile, j + u * kQuads, n);
      store(quads + (j + u * kQuads) * 4, x);
      top[u] = max(x, top[u]);
    }
  }
  F highest = max(top[0], top[1]);
  if constexpr (kQuads > 2) highest = max(highest, pick<Turned<kQuads / 2>>(highest, highest));
  if constexpr (kQuads > 1) highest = max(highest, pick<Turned<1>>(highest, highest));

  const F offset = repeat_four(state.offset), old_max = repeat_four(state.max);
  const F new_max = max(highest + offset, old_max);
  // A row that has seen nothing keeps m = -inf; 0 stands in for it, so that -inf - m is -inf.
  const F m = new_max == -INFINITY ? F{} : new_max;
  const F fall = (old_max - m) * kLog2e;
  const F clamped_fall = max(splat(kSmallestExponent), fall);
  const F a = exp2_clamped(fall, clamped_fall);

  const F base = m - offset;
  F total[2] = {F{}, F{}}, moment[2] = {F{}, F{}};
  for (Index j = 0; j < even; j += 2 * kQuads) {
#pragma GCC unroll 2
    for (int u = 0; u < 2; ++u) {
      const F x = (load(quads + (j + u * kQuads) * 4) - base) * kLog2e;
      const F clamped = max(splat(kSmallestExponent), x);
      const F p = exp2_clamped(x, clamped);
      store_quads<0>(tile + (j + u * kQuads) * kRows, p);
      total[u] += p;
      if constexpr (with_moment) moment[u] = fma(p, clamped, moment[u]);
    }
  }
  const F old_sum = repeat_four(state.sum);
  store_four(state.sum, fma(a, old_sum, over_keys(total[0] + total[1])));
  if constexpr (with_moment) {
    const F old_moment = fma(clamped_fall, old_sum, repeat_four(state.moment));
    store_four(state.moment, fma(a, old_moment, over_keys(moment[0] + moment[1])));
  }
  store_four(state.max, new_max);
  store_four(alpha, a);
}

inline void absorb_few(float* tile, Index n, const Softmax& state, float* alpha, Index count) {
  for (Index lane = 0; lane < count; lane += 4) {
    const Softmax here{state.max + lane, state.sum + lane,
                       state.moment == nullptr ? nullptr : state.moment + lane,
                       state.offset + lane};
    if (state.moment != nullptr) {
      absorb_four<true>(tile + lane, n, here, alpha + lane);
    } else {
      absorb_four<false>(tile + lane, n, here, alpha + lane);
    }
  }
}

}  // namespace heed::inline HEED_ABI::simd::HEED_LEVEL

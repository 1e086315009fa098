// SPDX-License-Identifier: Apache-2.0
//
// Included once per instruction set: the exponential, sigmoid and tanh, and the softmax pass that
// is made of them. Errors are against the exact value, largest over all floats:
//
//   exp2     2.5 ULP for -125 <= x <= 127; exactly 0 below -125 (a weight of 2^-125 is nothing,
//            and denormal numbers are slow); exactly 1 at 0
//   sigmoid  2.5 ULP for x >= -86; below, at most 2^-124 in absolute terms
//   tanh     2 ULP
//
// +-infinity and NaN give what they should in every lane.

namespace heed::inline HEED_ABI::simd::HEED_LEVEL {

inline constexpr float kLog2e = 1.44269502f;           // float(log2 e), and what it leaves out
inline constexpr float kLog2eLow = 1.92596303e-08f;
inline constexpr float kLn2 = 0.693147182f;
inline constexpr float kSmallestExponent = -125.0f;    // 2^x is 0 below

// Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits; 127 more make it the
// exponent of 2^n, one shift away.
inline constexpr float kRounder = 12582912.0f + 127.0f;

// 2^f * 2^n for |f| <= 1/2, n + 127 being the low bits of `rounded`. A product, not an addition of
// exponents: a NaN of any bits stays one. Polynomial with 1 at 0, our own fit
// (relative minimax; degree 5: 1.1e-7, degree 6: 1.6e-8).
template <int degree>
HEED_INLINE F exp2_reduced(F f, F rounded) {
  F p;
  if constexpr (degree == 5) {
    p = fma(splat(0.00132647273f), f, splat(0.00967151299f));
    p = fma(p, f, splat(0.0555073358f));
    p = fma(p, f, splat(0.240222424f));
    p = fma(p, f, splat(0.693147004f));
  } else {
    p = fma(splat(0.00015353362f), f, splat(0.0013398875f));
    p = fma(p, f, splat(0.00961843692f));
    p = fma(p, f, splat(0.0555033237f));
    p = fma(p, f, splat(0.240226477f));
    p = fma(p, f, splat(0.693147182f));
  }
  p = fma(p, f, splat(1.0f));
  return p * from_bits(bits(rounded) << 23);
}

// 2^x for x <= 127; `clamped` is max(x, -125), which NaN passes.
HEED_INLINE F exp2_clamped(F x, F clamped) {
  const F rounded = clamped + kRounder;
  const F f = clamped - (rounded - kRounder);
  const F r = exp2_reduced<5>(f, rounded);
  return x < kSmallestExponent ? F{} : r;
}
HEED_INLINE F exp2(F x) { return exp2_clamped(x, max(splat(kSmallestExponent), x)); }

// e^x for x clamped to [-86, 88]; reduced in two steps, so the argument's rounding does not show.
HEED_INLINE F exp_reduced(F x) {
  const F rounded = fma(x, splat(kLog2e), splat(kRounder));
  const F n = rounded - kRounder;
#if HEED_INTRINSICS != 0
  const F f = fma(x, splat(kLog2eLow), fma(x, splat(kLog2e), -n));
#else   // n times the first part of ln 2 is exact
  const F f = ((x - n * 0.693359375f) + n * 2.12194440e-4f) * kLog2e;
#endif
  return exp2_reduced<6>(f, rounded);
}

// 1 / (1 + e^-x). Clamping keeps NaN: max and min return their second operand then.
HEED_INLINE F sigmoid(F x) {
  const F clamped = min(splat(86.0f), max(splat(-88.0f), -x));
  const F g = 1.0f / (1.0f + exp_reduced(clamped));
  return x < -86.0f ? F{} : g;
}

// Small x: x + x^3 P(x^2), our own fit on |x| <= 0.625; else 1 - 2 / (e^2x + 1).
HEED_INLINE F tanh(F x) {
  const F magnitude = from_bits(bits(x) & 0x7fffffff);
  const F square = x * x;
  F p = fma(splat(-0.00570498453f), square, splat(0.0206390843f));
  p = fma(p, square, splat(-0.0537397154f));
  p = fma(p, square, splat(0.133314416f));
  p = fma(p, square, splat(-0.333332807f));
  const F small = fma(p * square, x, x);
  const F e = exp_reduced(min(splat(20.0f), magnitude + magnitude));
  const F large = 1.0f - 2.0f / (e + 1.0f);
  const F signed_large = from_bits(bits(large) | (bits(x) & I(splat(INT32_MIN))));
  return magnitude < 0.625f ? small : signed_large;
}

// Applies a function of one vector to n floats.
template <class Function>
HEED_INLINE void for_each(float* x, Index n, const Function& function) {
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, function(load(x + i)));
  if (i == n) return;
  alignas(64) float rest[kLanes] = {};
  for (Index j = i; j < n; ++j) rest[j - i] = x[j];
  store(rest, function(load(rest)));
  for (Index j = i; j < n; ++j) x[j] = rest[j - i];
}

// Named function objects: GCC gives a captureless lambda a second, baseline entry and warns of it.
struct Exp2 {
  HEED_INLINE F operator()(F x) const { return exp2(x); }
};
struct Sigmoid {
  HEED_INLINE F operator()(F x) const { return sigmoid(x); }
};
struct Tanh {
  HEED_INLINE F operator()(F x) const { return tanh(x); }
};
struct Weigh {
  F max, inverse_sum;
  HEED_INLINE F operator()(F x) const {
    return x == -INFINITY ? F{} : exp2((x - max) * kLog2e) * inverse_sum;
  }
};
struct SoftCap {
  F cap, inverse;
  HEED_INLINE F operator()(F x) const { return cap * tanh(x * inverse); }
};

inline void exp2_all(float* x, Index n) { for_each(x, n, Exp2{}); }
inline void sigmoid_all(float* x, Index n) { for_each(x, n, Sigmoid{}); }
inline void tanh_all(float* x, Index n) { for_each(x, n, Tanh{}); }
inline void weigh(float* x, Index n, float max, float sum) {
  for_each(x, n, Weigh{splat(max), splat(1.0f / sum)});
}

// Calls step(key, u) for the keys of [0, n) that the group sees, u = key % 4 being a constant, so
// that four sums are under way together; calls skip(key) for the others.
template <class Step, class Skip>
HEED_INLINE void for_seen_keys(Index n, const Reach& reach, Index group, const Step& step,
                               const Skip& skip) {
  for (Index begin = 0, chunk = 0; begin < n; begin += kGroup, ++chunk) {
    const Index end = begin + kGroup < n ? begin + kGroup : n;
    Index j = begin;
    if (group < reach.first[chunk] || group >= reach.last[chunk]) {
      for (; j < end; ++j) skip(j);
      continue;
    }
    for (; j + 4 <= end; j += 4) {
      step(j, std::integral_constant<int, 0>{});
      step(j + 1, std::integral_constant<int, 1>{});
      step(j + 2, std::integral_constant<int, 2>{});
      step(j + 3, std::integral_constant<int, 3>{});
    }
    if (j < end) step(j, std::integral_constant<int, 0>{});
    if (j + 1 < end) step(j + 1, std::integral_constant<int, 1>{});
    if (j + 2 < end) step(j + 2, std::integral_constant<int, 2>{});
  }
}

// The two passes over one vector of lanes, as function objects: lambdas that take vectors would be
// compiled for the including file's own instruction set.
struct TopPass {
  const float* tile;
  F (&top)[4];
  template <class U>
  HEED_INLINE void operator()(Index j, U u) const {
    top[u] = max(load(tile + j * kRows), top[u]);
  }
};
struct NoPass {
  HEED_INLINE void operator()(Index) const {}
};
template <bool with_moment>
struct WeightPass {
  float* tile;
  F base;
  F (&total)[4];
  F (&moment)[4];
  template <class U>
  HEED_INLINE void operator()(Index j, U u) const {
    const F x = (load(tile + j * kRows) - base) * kLog2e;
    const F clamped = max(splat(kSmallestExponent), x);
    const F p = exp2_clamped(x, clamped);
    store(tile + j * kRows, p);
    total[u] += p;
    if constexpr (with_moment) moment[u] = fma(p, clamped, moment[u]);
  }
};
struct ZeroPass {
  float* tile;
  HEED_INLINE void operator()(Index j) const { store(tile + j * kRows, F{}); }
};

template <bool with_moment>
HEED_INLINE void absorb_lanes(float* tile, Index n, const Softmax& state, float* alpha,
                              const Reach& reach, Index lane) {
  const Index group = lane / kGroup;
  const F lowest = splat(-INFINITY);
  F top[4] = {lowest, lowest, lowest, lowest};
  for_seen_keys(n, reach, group, TopPass{tile + lane, top}, NoPass{});
  const F offset = load(state.offset + lane);
  const F old_max = load(state.max + lane);
  const F new_max = max(max(max(top[0], top[1]), max(top[2], top[3])) + offset, old_max);
  // A row that has seen nothing keeps m = -inf; 0 stands in for it, so that -inf - m is -inf.
  const F m = new_max == -INFINITY ? F{} : new_max;
  const F fall = (old_max - m) * kLog2e;
  const F clamped_fall = max(splat(kSmallestExponent), fall);
  const F a = exp2_clamped(fall, clamped_fall);
  store(alpha + lane, a);
  store(state.max + lane, new_max);

  F total[4] = {F{}, F{}, F{}, F{}}, moment[4] = {F{}, F{}, F{}, F{}};
  for_seen_keys(n, reach, group, WeightPass<with_moment>{tile + lane, m - offset, total, moment},
                ZeroPass{tile + lane});
  const F old_sum = load(state.sum + lane);
  store(state.sum + lane, fma(a, old_sum, (total[0] + total[1]) + (total[2] + total[3])));
  if constexpr (with_moment) {
    const F old_moment = fma(clamped_fall, old_sum, load(state.moment + lane));
    store(state.moment + lane, fma(a, old_moment, (moment[0] + moment[1]) + (moment[2] + moment[3])));
  }
}

inline void absorb(float* tile, Index n, const Softmax& state, float* alpha, const Reach& reach) {
  for (Index lane = 0; lane < kRows; lane += kLanes) {
    if (state.moment != nullptr) {
      absorb_lanes<true>(tile, n, state, alpha, reach, lane);
    } else {
      absorb_lanes<false>(tile, n, state, alpha, reach, lane);
    }
  }
}

}  // namespace heed::inline HEED_ABI::simd::HEED_LEVEL

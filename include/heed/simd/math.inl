// SPDX-License-Identifier: Apache-2.0
//
// Included once per instruction set: the exponential, sigmoid and tanh, and the softmax pass that
// is made of them. Errors are against the exact value, largest over all floats:
//
//   exp2     2 ULP for -125 <= x <= 127; exactly 0 below -125 (a weight of 2^-125 is nothing, and
//            denormal numbers are slow); exactly 1 at 0
//   sigmoid  2 ULP for x >= -86; below, at most 2^-124 in absolute terms
//   tanh     2 ULP
//
// +-infinity and NaN give what they should in every lane.

namespace heed::inline HEED_ABI::simd::HEED_LEVEL {

inline constexpr float kLog2e = 1.44269502f;           // float(log2 e), and what it leaves out
inline constexpr float kLog2eLow = 1.92596303e-08f;
inline constexpr float kLn2 = 0.693147182f;
inline constexpr float kSmallestExponent = -125.0f;    // 2^x is 0 below

// Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
inline constexpr float kRounder = 12582912.0f;

// 2^f * 2^n for |f| <= 1/2, n being the low bits of `rounded`. Polynomial with 1 at 0, our own fit
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
  return from_bits(bits(p) + (bits(rounded) << 23));
}

// 2^x for x <= 127; `clamped` is max(x, -125), which NaN passes.
HEED_INLINE F exp2_clamped(F x, F clamped) {
  const F rounded = clamped + kRounder;
  const F f = clamped - (rounded - kRounder);
  const F r = exp2_reduced<5>(f, rounded);
  return x < kSmallestExponent ? F{} : r;
}
HEED_INLINE F exp2(F x) { return exp2_clamped(x, max(splat(kSmallestExponent), x)); }

// e^x for x clamped to [-86, 88]; two-step reduction, so the argument's rounding does not show.
HEED_INLINE F exp_reduced(F x) {
  const F rounded = fma(x, splat(kLog2e), splat(kRounder));
  const F n = rounded - kRounder;
  const F f = fma(x, splat(kLog2eLow), fma(x, splat(kLog2e), -n));
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
  F lse;
  HEED_INLINE F operator()(F x) const { return exp2((x - lse) * kLog2e); }
};
struct SoftCap {
  F cap, inverse;
  HEED_INLINE F operator()(F x) const { return cap * tanh(x * inverse); }
};

inline void exp2_all(float* x, Index n) { for_each(x, n, Exp2{}); }
inline void sigmoid_all(float* x, Index n) { for_each(x, n, Sigmoid{}); }
inline void tanh_all(float* x, Index n) { for_each(x, n, Tanh{}); }
inline void soft_cap(float* tile, Index n, float cap) {
  for_each(tile, n * kRows, SoftCap{splat(cap), splat(1.0f / cap)});
}
inline void weigh(float* x, Index n, float lse) {
  if (lse == -INFINITY) {
    for (Index i = 0; i < n; ++i) x[i] = 0;
  } else {
    for_each(x, n, Weigh{splat(lse)});
  }
}

// Four vectors of lanes at a time, so that four sums are under way together.
template <bool with_moment>
HEED_INLINE void absorb_lanes(float* tile, Index n, const Softmax& state, float* alpha, Index lane) {
  constexpr int kTogether = 4;
  F top[kTogether], offset[kTogether], base[kTogether];
  F total[kTogether], moment[kTogether];
#pragma GCC unroll 4
  for (int v = 0; v < kTogether; ++v) top[v] = splat(-INFINITY);
  for (Index j = 0; j < n; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < kTogether; ++v) {
      top[v] = max(load(tile + j * kRows + lane + v * kLanes), top[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kTogether; ++v) {
    const Index at = lane + v * kLanes;
    offset[v] = load(state.offset + at);
    const F old_max = load(state.max + at);
    const F new_max = max(top[v] + offset[v], old_max);
    // A row that has seen nothing keeps m = -inf; 0 stands in for it, so that -inf - m is -inf.
    const F m = new_max == -INFINITY ? F{} : new_max;
    base[v] = m - offset[v];
    const F fall = max(splat(kSmallestExponent), (old_max - m) * kLog2e);
    const F a = exp2_clamped((old_max - m) * kLog2e, fall);
    store(alpha + at, a);
    store(state.max + at, new_max);
    total[v] = load(state.sum + at);
    if constexpr (with_moment) moment[v] = a * fma(fall, total[v], load(state.moment + at));
    total[v] *= a;
  }
  for (Index j = 0; j < n; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < kTogether; ++v) {
      float* const at = tile + j * kRows + lane + v * kLanes;
      const F x = (load(at) - base[v]) * kLog2e;
      const F clamped = max(splat(kSmallestExponent), x);
      const F p = exp2_clamped(x, clamped);
      store(at, p);
      total[v] += p;
      if constexpr (with_moment) moment[v] = fma(p, clamped, moment[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kTogether; ++v) {
    const Index at = lane + v * kLanes;
    store(state.sum + at, total[v]);
    if constexpr (with_moment) store(state.moment + at, moment[v]);
  }
}

inline void absorb(float* tile, Index n, const Softmax& state, float* alpha) {
  for (Index lane = 0; lane < kRows; lane += 4 * kLanes) {
    if (state.moment != nullptr) {
      absorb_lanes<true>(tile, n, state, alpha, lane);
    } else {
      absorb_lanes<false>(tile, n, state, alpha, lane);
    }
  }
}

}  // namespace heed::inline HEED_ABI::simd::HEED_LEVEL

// SPDX-License-Identifier: Apache-2.0
//
// Included once per instruction set, without include guard: vectors of HEED_LANES floats.
// GCC and clang vector extensions say nearly everything; the few words they lack (fused multiply
// and add, minimum and maximum with x86's rule for NaN, gather, any lane set) are intrinsics under
// #if. The fused form is spelled out so that every compiler rounds alike.

namespace heed::inline HEED_ABI::simd::HEED_LEVEL {

#define HEED_INLINE inline __attribute__((always_inline))

inline constexpr int kLanes = HEED_LANES;
inline constexpr int kVectors = int(kRows) / kLanes;   // of a tile's column

typedef float F __attribute__((vector_size(HEED_LANES * 4)));
typedef std::int32_t I __attribute__((vector_size(HEED_LANES * 4)));
typedef float FU __attribute__((vector_size(HEED_LANES * 4), aligned(4), may_alias));
typedef std::int32_t IU __attribute__((vector_size(HEED_LANES * 4), aligned(4), may_alias));
typedef float F4 __attribute__((vector_size(16), aligned(4), may_alias));

HEED_INLINE F load(const float* p) { return *reinterpret_cast<const FU*>(p); }
HEED_INLINE I load(const std::int32_t* p) { return *reinterpret_cast<const IU*>(p); }
HEED_INLINE void store(float* p, F x) { *reinterpret_cast<FU*>(p) = x; }
HEED_INLINE F splat(float x) { return x - F{}; }
HEED_INLINE I splat(std::int32_t x) { return x + I{}; }
HEED_INLINE I to_int(F x) { return __builtin_convertvector(x, I); }
HEED_INLINE F to_float(I x) { return __builtin_convertvector(x, F); }
HEED_INLINE I bits(F x) { return reinterpret_cast<I>(x); }
HEED_INLINE F from_bits(I x) { return reinterpret_cast<F>(x); }

// a * b + c, rounded once where the machine can.
HEED_INLINE F fma(F a, F b, F c) {
#if HEED_INTRINSICS == 512
  return _mm512_fmadd_ps(a, b, c);
#elif HEED_INTRINSICS == 256
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

// a > b ? a : b and a < b ? a : b; b where either is NaN.
HEED_INLINE F max(F a, F b) {
#if HEED_INTRINSICS == 512
  return _mm512_maskz_max_ps(__mmask16(-1), a, b);
#elif HEED_INTRINSICS == 256
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
HEED_INLINE F min(F a, F b) {
#if HEED_INTRINSICS == 512
  return _mm512_maskz_min_ps(__mmask16(-1), a, b);
#elif HEED_INTRINSICS == 256
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

// The largest integer not above x; x must lie within +-2^31.
HEED_INLINE F floor(F x) {
#if HEED_INTRINSICS == 512
  return _mm512_maskz_roundscale_ps(__mmask16(-1), x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif HEED_INTRINSICS == 256
  return _mm256_floor_ps(x);
#else
  const F t = to_float(to_int(x));
  return t > x ? t - 1.0f : t;
#endif
}

// A bit per lane of a comparison, and whether any is set.
HEED_INLINE std::uint32_t mask_bits(I mask) {
#if HEED_INTRINSICS == 512
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask));
#elif HEED_INTRINSICS == 256
  return std::uint32_t(_mm256_movemask_ps(reinterpret_cast<__m256>(mask)));
#else
  std::uint32_t result = 0;
  for (int i = 0; i < kLanes; ++i) result |= std::uint32_t(mask[i] & 1) << i;
  return result;
#endif
}
HEED_INLINE bool any(I mask) { return mask_bits(mask) != 0; }

// base[index[lane]] where mask holds, else other.
HEED_INLINE F gather(F other, I mask, const float* base, I index) {
#if HEED_INTRINSICS == 512
  return _mm512_mask_i32gather_ps(other, _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask)),
                                  reinterpret_cast<__m512i>(index), base, 4);
#elif HEED_INTRINSICS == 256
  return _mm256_mask_i32gather_ps(other, base, reinterpret_cast<__m256i>(index),
                                  reinterpret_cast<__m256>(mask), 4);
#else
  F result = other;
  for (int i = 0; i < kLanes; ++i) {
    if (mask[i]) result[i] = base[index[i]];
  }
  return result;
#endif
}

HEED_INLINE float sum(F x) {
  float result = 0;
  for (int i = 0; i < kLanes; ++i) result += x[i];
  return result;
}

HEED_INLINE I lane_numbers() {
  I result{};
  for (int i = 0; i < kLanes; ++i) result[i] = i;
  return result;
}

}  // namespace heed::inline HEED_ABI::simd::HEED_LEVEL

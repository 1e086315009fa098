// SPDX-License-Identifier: Apache-2.0
//
// What the machine can do at this moment, so that a benchmark's time becomes a share of it: the
// rate of multiply-adds in registers, and that of the library's own product on a tile in L1. The
// larger of the two is the rate; either alone can lie. Vectors have the width of the level in use.
//
// Times are the thread's CPU time. A benchmark calibrates just before and just after itself; how
// far the two differ (`drift`) says whether its figure is worth reading.

#pragma once

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <heed/heed.hpp>

#if HEED_X86
#include <immintrin.h>
#endif

namespace heed_bench {

using heed::Index;
using heed::Isa;

inline void refuse_debug_build() {
#if !defined(NDEBUG) || !defined(__OPTIMIZE__)
  std::fputs("heed's benchmarks measure nothing in a debug build; compile with -O2 -DNDEBUG "
             "(cmake --preset bench)\n", stderr);
  std::abort();
#endif
}

inline double seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
inline double cpu_seconds() { return seconds(CLOCK_THREAD_CPUTIME_ID); }
inline double wall_seconds() { return seconds(CLOCK_MONOTONIC); }

// The value below which a share of the samples lies.
inline double quantile(std::vector<double> x, double share) {
  std::sort(x.begin(), x.end());
  return x[std::size_t(std::lround(share * double(x.size() - 1)))];
}
inline double median(const std::vector<double>& x) { return quantile(x, 0.5); }

// Twelve chains hide the latency of two units; x = x * 1/2 + 1 stays near 2. The compiler must not
// see that they all hold the same.
inline constexpr int kChains = 12;
inline constexpr Index kSteps = 4000;

#define HEED_BENCH_HIDE(a, b, c, d, e, f) \
  __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f))
#define HEED_BENCH_FMA_LOOP(name, target, V, splat, multiply_add)    \
  target inline void name() {                                        \
    V b = splat(0.5f), c = splat(1.0f);                              \
    V x0 = c, x1 = c, x2 = c, x3 = c, x4 = c, x5 = c;                \
    V x6 = c, x7 = c, x8 = c, x9 = c, xa = c, xb = c;                \
    HEED_BENCH_HIDE(x0, x1, x2, x3, x4, b);                          \
    HEED_BENCH_HIDE(x5, x6, x7, x8, x9, c);                          \
    __asm__ volatile("" : "+x"(xa), "+x"(xb));                       \
    for (Index i = 0; i < kSteps; ++i) {                             \
      x0 = multiply_add(x0, b, c), x1 = multiply_add(x1, b, c);      \
      x2 = multiply_add(x2, b, c), x3 = multiply_add(x3, b, c);      \
      x4 = multiply_add(x4, b, c), x5 = multiply_add(x5, b, c);      \
      x6 = multiply_add(x6, b, c), x7 = multiply_add(x7, b, c);      \
      x8 = multiply_add(x8, b, c), x9 = multiply_add(x9, b, c);      \
      xa = multiply_add(xa, b, c), xb = multiply_add(xb, b, c);      \
    }                                                                \
    HEED_BENCH_HIDE(x0, x1, x2, x3, x4, x5);                         \
    HEED_BENCH_HIDE(x6, x7, x8, x9, xa, xb);                         \
  }

#if HEED_X86
// The generic level is SSE2: a multiplication and an addition.
#define HEED_BENCH_SSE(x, b, c) _mm_add_ps(_mm_mul_ps(x, b), c)
HEED_BENCH_FMA_LOOP(fma_loop_generic, , __m128, _mm_set1_ps, HEED_BENCH_SSE)
HEED_BENCH_FMA_LOOP(fma_loop_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps,
                    _mm256_fmadd_ps)
HEED_BENCH_FMA_LOOP(fma_loop_avx512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps,
                    _mm512_fmadd_ps)
#undef HEED_BENCH_SSE
#endif
#undef HEED_BENCH_FMA_LOOP
#undef HEED_BENCH_HIDE

inline int lanes_of(Isa isa) { return isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 4; }
inline const char* name_of(Isa isa) {
  return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "generic";
}

// Flops of one call of the loop, or 0 where there is none for this machine.
inline double fma_loop(Isa isa) {
#if HEED_X86
  if (isa == Isa::avx512) fma_loop_avx512();
  if (isa == Isa::avx2) fma_loop_avx2();
  if (isa == Isa::generic) fma_loop_generic();
  return 2.0 * kChains * double(kSteps) * lanes_of(isa);
#else
  (void)isa;
  return 0;
#endif
}

// 16 keys of 64: with the packed queries and the logits 24 KiB, which any L1 holds.
class SmallProduct {
 public:
  double operator()(Isa isa) {
    const auto& table = heed::simd::table_for<heed::simd::ForwardTable>(isa);
    for (int i = 0; i < kTimes; ++i) {
      table.product(tile_, packed_, kDim, rows_, kCount, heed::simd::kReachAll);
    }
    return 2.0 * kTimes * double(heed::kRows * kCount * kDim);
  }
  SmallProduct() {
    for (Index i = 0; i < heed::kRows * kDim; ++i) packed_[i] = float(i % 7) - 3.0f;
    for (Index i = 0; i < kCount * kDim; ++i) keys_[i] = float(i % 5) - 2.0f;
    for (Index j = 0; j < kCount; ++j) rows_[j] = keys_ + j * kDim;
  }

 private:
  static constexpr Index kDim = 64, kCount = 16;
  static constexpr int kTimes = 40;
  alignas(64) float packed_[heed::kRows * kDim];
  alignas(64) float keys_[kCount * kDim];
  alignas(64) float tile_[kCount * heed::kRows];
  const float* rows_[kCount];
};

// Flops per second.
struct Rate {
  double loop = 0, product = 0;
  double best() const { return std::max(loop, product); }
};

// About a millisecond: medians of seven samples each, alternating.
inline Rate calibrate(Isa isa) {
  static SmallProduct product;
  std::vector<double> loops, products;
  const auto sample = [isa](std::vector<double>& to, auto&& work) {
    const double start = cpu_seconds();
    const double flops = work(isa);
    to.push_back(flops / (cpu_seconds() - start));
  };
  for (int i = 0; i < 7; ++i) {
    sample(loops, fma_loop);
    sample(products, product);
  }
  return {median(loops), median(products)};
}

// Runs the benchmark's loop; returns the CPU seconds of one iteration.
template <class F>
double time_loop(benchmark::State& state, const F& f) {
  const double start = cpu_seconds();
  for (auto _ : state) {
    f();
    benchmark::ClobberMemory();
  }
  return (cpu_seconds() - start) / double(state.iterations());
}

// Around one benchmark: construct before the loop, read after it.
class Calibration {
 public:
  explicit Calibration(Isa isa = heed::isa()) : isa_(isa), before_(calibrate(isa)) {}

  // Flops per second while the benchmark ran; measures a second time when first asked.
  double rate() {
    if (after_.best() == 0) after_ = calibrate(isa_);
    return (before_.best() + after_.best()) / 2;
  }
  // The share of the rate that `flops` in so many seconds make.
  double share(double flops, double time) { return flops / time / rate(); }
  void describe(benchmark::State& state) {
    const double mean = rate();
    state.counters["fma_gflops"] = mean * 1e-9;
    state.counters["product_over_loop"] =
        (before_.product + after_.product) / (before_.loop + after_.loop);
    state.counters["drift"] = std::abs(after_.best() - before_.best()) / mean;
  }

 private:
  const Isa isa_;
  const Rate before_;
  Rate after_;
};

// Once per program, from its registration: refuses debug builds and says what was built.
inline void describe_build() {
  refuse_debug_build();
  benchmark::AddCustomContext("heed_isa", name_of(heed::isa()));
  benchmark::AddCustomContext("heed_compiler",
#if defined(__clang__)
                              "clang " __clang_version__
#else
                              "gcc " __VERSION__
#endif
  );
  benchmark::AddCustomContext("heed_flags",
#if defined(__AVX2__)
                              "-O2 -march=native"
#else
                              "-O2"
#endif
  );
  benchmark::AddCustomContext("heed_eigen", std::to_string(EIGEN_WORLD_VERSION) + "." +
                                                std::to_string(EIGEN_MAJOR_VERSION) + "." +
                                                std::to_string(EIGEN_MINOR_VERSION));
}

}  // namespace heed_bench

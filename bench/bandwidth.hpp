// SPDX-License-Identifier: Apache-2.0
//
// How fast this thread reads memory at this moment, over a block of the size that a benchmark
// reads: what a decode step is measured against. Four streams with software prefetch, the widest
// loads that the machine has, the median of several passes; call it just before and just after.

#pragma once

#include "calibration.hpp"

namespace heed_bench {

#define HEED_BENCH_READ(name, target, V, load, add, zero)                                \
  target inline void name(const float* data, heed::Index count) {                         \
    const heed::Index quarter = count / 4;                                                 \
    const float* const p0 = data;                                                          \
    const float* const p1 = data + quarter;                                                \
    const float* const p2 = data + 2 * quarter;                                            \
    const float* const p3 = data + 3 * quarter;                                            \
    V s0 = zero(), s1 = zero(), s2 = zero(), s3 = zero();                                  \
    for (heed::Index i = 0; i < quarter; i += 16) {                                        \
      __builtin_prefetch(p0 + i + 512), __builtin_prefetch(p1 + i + 512);                  \
      __builtin_prefetch(p2 + i + 512), __builtin_prefetch(p3 + i + 512);                  \
      for (heed::Index j = i; j < i + 16; j += heed::Index(sizeof(V) / sizeof(float))) {   \
        s0 = add(s0, load(p0 + j)), s1 = add(s1, load(p1 + j));                            \
        s2 = add(s2, load(p2 + j)), s3 = add(s3, load(p3 + j));                            \
      }                                                                                    \
    }                                                                                      \
    __asm__ volatile("" ::"x"(s0), "x"(s1), "x"(s2), "x"(s3));                             \
  }

#if HEED_X86
HEED_BENCH_READ(read_sse, , __m128, _mm_loadu_ps, _mm_add_ps, _mm_setzero_ps)
HEED_BENCH_READ(read_avx2, __attribute__((target("avx2"))), __m256, _mm256_loadu_ps, _mm256_add_ps,
                _mm256_setzero_ps)
HEED_BENCH_READ(read_avx512, __attribute__((target("avx512f"))), __m512, _mm512_loadu_ps,
                _mm512_add_ps, _mm512_setzero_ps)
#endif
#undef HEED_BENCH_READ

class Bandwidth {
 public:
  // Streams a few lines out of step, so that they do not meet in the same sets of a cache.
  explicit Bandwidth(Index bytes)
      : count_((bytes / Index(sizeof(float)) / 64 + 5) / 4 * 4 * 64 + 4 * 80),
        data_(count_ + 1024) {
    std::fill_n(data_.data(), count_ + 1024, 1.0f);
  }

  // Bytes per second of the thread's CPU time, over some milliseconds.
  double rate() const {
    std::vector<double> rates;
    double spent = 0;
    for (int pass = 0; pass < 4 || (spent < 4e-3 && pass < 64); ++pass) {
      const double start = cpu_seconds();
      read();
      const double took = cpu_seconds() - start;
      spent += took;
      rates.push_back(double(count_) * sizeof(float) / took);
    }
    return median(rates);
  }

 private:
  void read() const {
#if HEED_X86
    if (heed::isa() == Isa::avx512) return read_avx512(data_.data(), count_);
    if (heed::isa() == Isa::avx2) return read_avx2(data_.data(), count_);
    return read_sse(data_.data(), count_);
#else
    float sum = 0;
    for (Index i = 0; i < count_; ++i) sum += data_[i];
    benchmark::DoNotOptimize(sum);
#endif
  }

  Index count_;   // a multiple of 4 x 16 and then 4 x 80
  heed::Buffer<float> data_;
};

}  // namespace heed_bench

// SPDX-License-Identifier: Apache-2.0
//
// The instruction set, chosen once per process: the best that the processor has and the system has
// enabled (CPUID and XGETBV), or a lower one named by the environment variable HEED_ISA
// (generic, avx2, avx512). A plain -O2 build therefore runs the same kernels as -march=native.
//
// primitives.inl is included once per level, each time inside a target region and a namespace of
// its own. Everything it needs from outside is included before the first region.

#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "backward_table.hpp"
#include "decode_table.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define HEED_X86 1
#else
#define HEED_X86 0
#endif

#define HEED_LEVEL generic
#define HEED_LANES 4
#define HEED_INTRINSICS 0
#include "primitives.inl"
#include "backward.inl"
#include "decode.inl"
#undef HEED_LEVEL
#undef HEED_LANES
#undef HEED_INTRINSICS
#undef HEED_INLINE

#if HEED_X86

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,lzcnt")
#endif
#define HEED_LEVEL avx2
#define HEED_LANES 8
#define HEED_INTRINSICS 256
#include "primitives.inl"
#include "backward.inl"
#include "decode.inl"
#undef HEED_LEVEL
#undef HEED_LANES
#undef HEED_INTRINSICS
#undef HEED_INLINE
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi,bmi2,lzcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi,bmi2,lzcnt")
#endif
#define HEED_LEVEL avx512
#define HEED_LANES 16
#define HEED_INTRINSICS 512
#include "primitives.inl"
#include "backward.inl"
#include "decode.inl"
#undef HEED_LEVEL
#undef HEED_LANES
#undef HEED_INTRINSICS
#undef HEED_INLINE
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // HEED_X86

namespace heed {
inline namespace HEED_DATA_ABI {

enum class Isa { generic, avx2, avx512 };

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {
namespace simd {

// What CPUID and XGETBV report, as plain numbers, so that the choice can be tested.
struct Cpu {
  std::uint32_t leaf1_ecx = 0, leaf7_ebx = 0, extended1_ecx = 0;
  std::uint64_t xcr0 = 0;   // 0 when OSXSAVE is off
};

constexpr Isa best_isa(const Cpu& cpu) {
  const auto has = [](std::uint64_t word, std::uint64_t bits) { return (word & bits) == bits; };
  constexpr std::uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr std::uint32_t kBmi1 = 1u << 3, kAvx2 = 1u << 5, kBmi2 = 1u << 8, kLzcnt = 1u << 5;
  constexpr std::uint32_t kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  if (!has(cpu.leaf1_ecx, kFma | kOsxsave | kAvx | kF16c)) return Isa::generic;
  if (!has(cpu.leaf7_ebx, kBmi1 | kAvx2 | kBmi2) || !has(cpu.extended1_ecx, kLzcnt)) {
    return Isa::generic;
  }
  if (!has(cpu.xcr0, 0x6)) return Isa::generic;      // the system saves ymm registers
  if (!has(cpu.leaf7_ebx, kAvx512) || !has(cpu.xcr0, 0xe6)) return Isa::avx2;   // and zmm, masks
  return Isa::avx512;
}

inline Cpu this_cpu() {
  Cpu cpu;
#if HEED_X86
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) cpu.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) cpu.leaf7_ebx = b;
  if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) cpu.extended1_ecx = c;
  if (cpu.leaf1_ecx & (1u << 27)) {
    std::uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    cpu.xcr0 = std::uint64_t(high) << 32 | low;
  }
#endif
  return cpu;
}

// A forced level above what the machine can do, or an unknown name, is ignored.
inline Isa choose_isa(Isa best, const char* forced) {
  if (forced == nullptr) return best;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    const char* name = isa == Isa::generic ? "generic" : isa == Isa::avx2 ? "avx2" : "avx512";
    if (std::strcmp(forced, name) == 0) return isa < best ? isa : best;
  }
  return best;
}

// A template, so that a file compiles only the groups of primitives that it uses.
template <class Table>
const Table& table_for(Isa isa) {
  const auto choose = [isa]([[maybe_unused]] const Table& best, [[maybe_unused]] const Table& middle,
                            const Table& plain) -> const Table& {
#if HEED_X86
    if (isa == Isa::avx512) return best;
    if (isa == Isa::avx2) return middle;
#endif
    return plain;
  };
#if HEED_X86
  namespace best = avx512;
  namespace middle = avx2;
#else
  namespace best = generic;
  namespace middle = generic;
#endif
  if constexpr (std::is_same_v<Table, ForwardTable>) {
    return choose(best::kForward<Table>, middle::kForward<Table>, generic::kForward<Table>);
  } else if constexpr (std::is_same_v<Table, DecodeTable>) {
    return choose(best::kDecode<Table>, middle::kDecode<Table>, generic::kDecode<Table>);
  } else {
    static_assert(std::is_same_v<Table, BackwardTable>);
    return choose(best::kBackward<Table>, middle::kBackward<Table>, generic::kBackward<Table>);
  }
}

}  // namespace simd

// The level in use.
inline Isa isa() {
  static const Isa chosen =
      simd::choose_isa(simd::best_isa(simd::this_cpu()), std::getenv("HEED_ISA"));
  return chosen;
}

namespace simd {

inline const ForwardTable& forward() {
  static const ForwardTable& table = table_for<ForwardTable>(isa());
  return table;
}

template <class Table = BackwardTable>
const Table& backward() {
  static const Table& table = table_for<Table>(isa());
  return table;
}

template <class Table = DecodeTable>
const Table& decode() {
  static const Table& table = table_for<Table>(isa());
  return table;
}

}  // namespace simd
}  // namespace HEED_ABI
}  // namespace heed

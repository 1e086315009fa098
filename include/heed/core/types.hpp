// SPDX-License-Identifier: Apache-2.0
//
// The words every other header uses: the index type, the two tile extents, the namespaces.
//
// heed is header-only, so two files of one program may compile it with different flags. Functions
// live in an inline namespace named after the version and the including file's own flags
// (`HEED_ABI`), so the linker never mixes them. Plain data that must cross between such files
// (views, enums) lives in a namespace named after the version alone (`HEED_DATA_ABI`).

#pragma once

#include <Eigen/Core>
#include <array>
#include <cstddef>
#include <cstdint>

#include "../version.hpp"

#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "heed: masked logits are infinite, so -ffinite-math-only (part of -ffast-math) breaks every \
mask; compile this file with -fno-finite-math-only"
#endif

#if !defined(__GNUC__)
#error "heed: needs GCC 12 or clang 14 (or newer): the kernels use their vector extensions"
#endif

#if !EIGEN_VERSION_AT_LEAST(3, 4, 0)
#error "heed: needs Eigen 3.4 or newer"
#endif

// The tag's letters: widest vector unit, fused multiply-add, assertions, exceptions.
#if defined(__AVX512F__)
#define HEED_ABI_UNIT avx512
#elif defined(__AVX2__)
#define HEED_ABI_UNIT avx2
#elif defined(__AVX__)
#define HEED_ABI_UNIT avx
#elif defined(__SSE4_1__)
#define HEED_ABI_UNIT sse4
#else
#define HEED_ABI_UNIT base
#endif
#if defined(__FMA__)
#define HEED_ABI_FMA f
#else
#define HEED_ABI_FMA n
#endif
#if defined(NDEBUG)
#define HEED_ABI_DEBUG r
#else
#define HEED_ABI_DEBUG d
#endif
#if defined(__cpp_exceptions)
#define HEED_ABI_THROW e
#else
#define HEED_ABI_THROW a
#endif
#define HEED_ABI_PASTE(major, minor, unit, fma, debug, thrown) \
  v##major##_##minor##_##unit##_##fma##debug##thrown
#define HEED_ABI_EXPAND(major, minor, unit, fma, debug, thrown) \
  HEED_ABI_PASTE(major, minor, unit, fma, debug, thrown)
#define HEED_ABI                                                                            \
  HEED_ABI_EXPAND(HEED_VERSION_MAJOR, HEED_VERSION_MINOR, HEED_ABI_UNIT, HEED_ABI_FMA,      \
                  HEED_ABI_DEBUG, HEED_ABI_THROW)
#define HEED_DATA_ABI_PASTE(major, minor) v##major##_##minor##_data
#define HEED_DATA_ABI_EXPAND(major, minor) HEED_DATA_ABI_PASTE(major, minor)
#define HEED_DATA_ABI HEED_DATA_ABI_EXPAND(HEED_VERSION_MAJOR, HEED_VERSION_MINOR)

namespace heed {

// Signed, 64 bits on every 64-bit machine: positions, extents and strides of any sign.
using Index = Eigen::Index;
static_assert(sizeof(Index) == 8, "heed: positions and extents are 64-bit; this target is not");

// A tile is kRows query rows by kKeys keys. Both are part of the results' bits, so they are fixed.
inline constexpr Index kRows = 64;
inline constexpr Index kKeys = 64;

// Visibility of a key to the rows of a block, a bit per lane.
using LaneBits = std::uint64_t;
static_assert(kRows == 64);

}  // namespace heed

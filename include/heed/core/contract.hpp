// SPDX-License-Identifier: Apache-2.0
//
// Mistakes, said in one sentence: function, argument, what was found, what was expected.
// Everything is checked before anything is written. Without exceptions the same sentence is
// printed and the program aborts. All of it is cold: what a mistake says costs no one else's time.

#pragma once

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

#include "types.hpp"

namespace heed::inline HEED_ABI::contract {

// Throws std::invalid_argument: "heed::attend: k has 3 heads; expected a divisor of q's 8".
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(const char* function, const std::string& found,
                                const std::string& expected) {
  const std::string text = std::string("heed::") + function + ": " + found + "; expected " + expected;
#if defined(__cpp_exceptions)
  throw std::invalid_argument(text);
#else
  std::fputs((text + "\n").c_str(), stderr);
  std::abort();
#endif
}

[[gnu::cold, gnu::noinline]] inline std::string text(Index value) { return std::to_string(value); }
[[gnu::cold, gnu::noinline]] inline std::string text(double value) { return std::to_string(value); }
[[gnu::cold, gnu::noinline]] inline std::string text(const std::array<Index, 4>& extent) {
  return "[" + text(extent[0]) + ", " + text(extent[1]) + ", " + text(extent[2]) + ", " +
         text(extent[3]) + "]";
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_shape(
    const char* function, const char* argument, const std::array<Index, 4>& found,
    const std::array<Index, 4>& expected) {
  refuse(function, std::string(argument) + " is " + text(found), text(expected));
}

// Refuses a shape that differs from the expected one in any extent.
inline void same_shape(const char* function, const char* argument,
                       const std::array<Index, 4>& found, const std::array<Index, 4>& expected) {
  if (found != expected) refuse_shape(function, argument, found, expected);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_product(const char* function,
                                                                  const char* argument, Index a,
                                                                  Index b) {
  refuse(function, std::string(argument) + " has extents whose product overflows 64 bits (" +
                       text(a) + " x " + text(b) + ")",
         "a tensor that fits in memory");
}

// a * b, or a refusal when the product does not fit 64 bits.
inline Index product(const char* function, const char* argument, Index a, Index b) {
  Index result = 0;
  if (__builtin_mul_overflow(a, b, &result)) refuse_product(function, argument, a, b);
  return result;
}

}  // namespace heed::inline HEED_ABI::contract

// SPDX-License-Identifier: Apache-2.0
//
// How results are judged. A fixed tolerance is either too loose or flaky, so the yardstick is what
// plain float32 code does on the same inputs:
//
//   err(kernel) <= 2 err(naive float32) + 4 eps max|V| (1 + L/8),  L = scale max sum |q k|
//
// for outputs (L with the products of q with tables, where a score has any); lse, entropy and
// weights have the same form with their own size in place of max|V|.
// Where the oracle is not a number the kernel must not be one either, and where it is finite the
// kernel must be finite. The worst ratio of a run is printed: "passed" alone says little.

#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "oracle.hpp"

namespace support {

using oracle::Index;

// What a kernel wrote, in the oracle's order; absent outputs are empty.
struct Outputs {
  std::vector<float> out, lse, entropy, weights;
};

inline constexpr double kEps = 0x1p-23;

// The largest error as a share of what is allowed, and where it was.
struct Verdict {
  double ratio = 0;
  std::string where;
  bool passed() const { return ratio <= 1; }
};

// Ratios of a whole program, printed when it ends.
class Worst {
 public:
  static Worst& instance() {
    static Worst worst;
    return worst;
  }
  void note(const char* what, double ratio, const std::string& where) {
    for (Entry& e : entries_) {
      if (e.what == what) {
        ++e.count;
        if (ratio > e.ratio) {
          e.ratio = ratio;
          e.where = where;
        }
        return;
      }
    }
    entries_.push_back({what, ratio, where, 1});
  }
  ~Worst() {
    for (const Entry& e : entries_) {
      std::printf("worst ratio to what is allowed, %s: %.3f of 1 in %lld comparisons (%s)\n",
                  e.what.c_str(), e.ratio, static_cast<long long>(e.count), e.where.c_str());
    }
  }

 private:
  struct Entry {
    std::string what;
    double ratio;
    std::string where;
    std::int64_t count;
  };
  std::vector<Entry> entries_;
};

namespace detail {

enum class Class { finite, nan, plus_infinity, minus_infinity };
inline Class class_of(double x) {
  if (std::isnan(x)) return Class::nan;
  if (std::isinf(x)) return x > 0 ? Class::plus_infinity : Class::minus_infinity;
  return Class::finite;
}

// Compares n numbers; floor is what is allowed on top of twice the naive error.
template <class Right, class Naive>
void judge(Verdict& verdict, const char* what, const std::vector<float>& found, const Right& right,
           const Naive& naive, double floor) {
  if (found.empty() && !right.empty()) return;   // not asked for
  double error = 0, naive_error = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double r = static_cast<double>(right[i]), f = static_cast<double>(found[i]);
    const double n = static_cast<double>(naive[i]);
    // Where plain float32 leaves the range of float, the kernel may too.
    if (class_of(r) == Class::finite && class_of(n) != Class::finite) continue;
    if (class_of(r) != class_of(f)) {
      verdict.ratio = std::numeric_limits<double>::infinity();
      verdict.where = std::string(what) + "[" + std::to_string(i) + "] is " + std::to_string(f) +
                      ", the oracle says " + std::to_string(r);
      return;
    }
    if (class_of(r) != Class::finite) continue;
    naive_error = std::max(naive_error, std::abs(n - r));
    if (std::abs(f - r) > error) {
      error = std::abs(f - r);
      at = i;
    }
  }
  if (error == 0) return;
  const double ratio = error / (2 * naive_error + floor);
  if (!(ratio <= verdict.ratio)) {
    verdict.ratio = ratio;
    char text[200];
    std::snprintf(text, sizeof text,
                  "%s[%zu] is %.9g, the oracle says %.9g; naive error %.3g, floor %.3g", what, at,
                  static_cast<double>(found[at]), static_cast<double>(right[at]), naive_error,
                  floor);
    verdict.where = text;
  }
}

inline double largest(const std::vector<double>& x) {
  double most = 0;
  for (const double a : x) {
    if (std::isfinite(a)) most = std::max(most, std::abs(a));
  }
  return most;
}

}  // namespace detail

// The gate of law 8.
inline Verdict judge(const Outputs& found, const oracle::Case& c) {
  const auto right = oracle::attend<double>(c);
  const auto naive = oracle::attend<float>(c);
  const double growth = 1 + right.magnitude / 8;
  Verdict verdict;
  detail::judge(verdict, "out", found.out, right.out.data, naive.out.data,
                4 * kEps * detail::largest(c.v.data) * growth);
  // An error that all logits of a row share cancels in the output but not in lse, and grows with
  // the number of terms of a product.
  const double terms = static_cast<double>(c.q.extent[3]);
  detail::judge(verdict, "lse", found.lse, right.lse.data, naive.lse.data,
                4 * kEps * (growth + right.magnitude * (1 + terms / 8) / 8 +
                            detail::largest(right.lse.data)));
  const double outcomes = static_cast<double>(c.k.extent[2]) + 2;
  detail::judge(verdict, "entropy", found.entropy, right.entropy.data, naive.entropy.data,
                4 * kEps * growth * (1 + std::log(outcomes)));
  detail::judge(verdict, "weights", found.weights, right.weights.data, naive.weights.data,
                4 * kEps * growth);
  return verdict;
}

// Bits, not values: NaN equals itself, 0 and -0 differ.
inline ::testing::AssertionResult same_bits(const std::vector<float>& a,
                                            const std::vector<float>& b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << "sizes " << a.size() << " and " << b.size();
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "bits differ at " << i << " of " << a.size() << ": "
                                           << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_bits(const Outputs& a, const Outputs& b) {
  if (auto r = same_bits(a.out, b.out); !r) return r << " (out)";
  if (auto r = same_bits(a.lse, b.lse); !r) return r << " (lse)";
  if (auto r = same_bits(a.entropy, b.entropy); !r) return r << " (entropy)";
  if (auto r = same_bits(a.weights, b.weights); !r) return r << " (weights)";
  return ::testing::AssertionSuccess();
}

// A test whose expected output is nearly all zeros cannot fail, so it fails itself.
inline ::testing::AssertionResult can_fail(const std::vector<double>& expected) {
  std::size_t meaningful = 0;
  for (const double x : expected) meaningful += std::abs(x) > 1e-30 || std::isnan(x);
  if (meaningful * 5 >= expected.size() && meaningful > 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "mistrusted: only " << meaningful << " of "
                                       << expected.size() << " expected numbers are not zero";
}

// And two settings that must differ, do.
inline ::testing::AssertionResult differs(const std::vector<float>& a, const std::vector<float>& b,
                                          double by) {
  double most = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  if (most > by) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "mistrusted: the two differ by no more than " << most;
}

}  // namespace support

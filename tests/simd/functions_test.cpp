// SPDX-License-Identifier: Apache-2.0
//
// R55 and the figure of scalar functions: exp2, sigmoid and tanh of every level that this machine
// has, against double. A dense sample of all floats, or all 2^32 of them with HEED_RELEASE=1.
// Bounds are those that simd/math.inl states.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <heed/simd/dispatch.hpp>
#include <limits>
#include <vector>

namespace {

using heed::Index;
using heed::Isa;
using heed::simd::ForwardTable;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Isa> levels() {
  std::vector<Isa> list;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (isa <= heed::simd::best_isa(heed::simd::this_cpu())) list.push_back(isa);
  }
  return list;
}
const char* name(Isa isa) {
  return isa == Isa::generic ? "generic" : isa == Isa::avx2 ? "avx2" : "avx512";
}

// The distance from `exact` in units of the last place of a float of that size.
double ulps(float found, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::abs(static_cast<double>(found) - exact) / unit;
}

using Member = void (*ForwardTable::*)(float*, Index);

struct Worst {
  double ulp = 0, absolute = 0;   // in and beyond the range that is stated in ULP
  float at = 0;
};

// All floats up to `last`, and every NaN.
template <class Exact, class InUlps>
Worst measure(Isa isa, Member member, float last, const Exact& exact, const InUlps& in_ulps) {
  const char* release = std::getenv("HEED_RELEASE");
  const std::uint64_t step = release != nullptr && release[0] == '1' ? 1 : 997;   // a prime
  const auto function = heed::simd::table_for<ForwardTable>(isa).*member;
  constexpr Index kBatch = 1 << 14;
  std::vector<float> x(kBatch), y(kBatch);
  Worst worst;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32);) {
    Index n = 0;
    for (; n < kBatch && bits < (std::uint64_t{1} << 32); ++n, bits += step) {
      x[std::size_t(n)] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    }
    std::copy_n(x.begin(), n, y.begin());
    function(y.data(), n);
    for (std::size_t i = 0; i < std::size_t(n); ++i) {
      if (std::isnan(x[i])) {
        EXPECT_TRUE(std::isnan(y[i])) << name(isa) << ": the NaN " << std::hex
                                      << std::bit_cast<std::uint32_t>(x[i]) << " gives " << y[i];
        if (std::isnan(y[i])) continue;
        return worst;
      }
      if (x[i] > last) continue;
      const double right = exact(static_cast<double>(x[i]));
      if (!std::isfinite(y[i])) {
        worst.absolute = worst.ulp = kInfinity;
        worst.at = x[i];
      } else if (!in_ulps(x[i])) {
        worst.absolute = std::max(worst.absolute, std::abs(static_cast<double>(y[i]) - right));
      } else if (const double u = ulps(y[i], right); u > worst.ulp) {
        worst.ulp = u;
        worst.at = x[i];
      }
    }
  }
  return worst;
}

TEST(Functions, Exp2IsWithinItsBound) {
  for (const Isa isa : levels()) {
    // Above 127 it is not defined: the softmax never asks.
    const Worst w = measure(
        isa, &ForwardTable::exp2, 127, [](double x) { return std::exp2(x); },
        [](float x) { return x >= -125; });
    std::printf("exp2 on %s: %.3f ULP at %.9g\n", name(isa), w.ulp, static_cast<double>(w.at));
    EXPECT_LE(w.ulp, 2.5);
  }
}
TEST(Functions, SigmoidIsWithinItsBound) {
  for (const Isa isa : levels()) {
    const Worst w = measure(
        isa, &ForwardTable::sigmoid, kInfinity, [](double x) { return 1 / (1 + std::exp(-x)); },
        [](float x) { return x >= -86; });
    std::printf("sigmoid on %s: %.3f ULP at %.9g; below -86: %.3g\n", name(isa), w.ulp,
                static_cast<double>(w.at), w.absolute);
    EXPECT_LE(w.ulp, 2.5);
    EXPECT_LE(w.absolute, 0x1p-124);
  }
}
TEST(Functions, TanhIsWithinItsBound) {
  for (const Isa isa : levels()) {
    const Worst w = measure(
        isa, &ForwardTable::tanh, kInfinity, [](double x) { return std::tanh(x); },
        [](float) { return true; });
    std::printf("tanh on %s: %.3f ULP at %.9g\n", name(isa), w.ulp, static_cast<double>(w.at));
    EXPECT_LE(w.ulp, 2);
  }
}

// Vector code and its tail agree: every length, every lane, next to every neighbour.
TEST(Functions, R55SpecialValuesAreRightInEveryLane) {
  struct Case {
    float x, exp2, sigmoid, tanh;
  };
  const Case cases[] = {{-100, 0x1p-100f, 3.7835e-44f, -1}, {-1e4f, 0, 0, -1},
                        {-kInfinity, 0, 0, -1},             {kInfinity, kInfinity, 1, 1},
                        {std::nanf(""), std::nanf(""), std::nanf(""), std::nanf("")}};
  for (const Isa isa : levels()) {
    const ForwardTable& table = heed::simd::table_for<ForwardTable>(isa);
    for (Index n = 1; n <= 33; ++n) {
      for (Index lane = 0; lane < n; ++lane) {
        for (const Case& c : cases) {
          const auto check = [&](Member member, float right, float slack, const char* what) {
            std::vector<float> x(std::size_t(n), 0.5f), plain = x;
            x[std::size_t(lane)] = c.x;
            (table.*member)(x.data(), n);
            (table.*member)(plain.data(), n);
            for (Index i = 0; i < n; ++i) {
              const float found = x[std::size_t(i)];
              if (i != lane) {
                ASSERT_EQ(found, plain[std::size_t(i)]) << what << " disturbs a neighbour";
              } else if (std::isnan(right)) {
                ASSERT_TRUE(std::isnan(found)) << what << " of NaN, lane " << i << " of " << n;
              } else {
                ASSERT_NEAR(found, right, slack) << what << "(" << c.x << "), lane " << i;
              }
            }
          };
          if (c.x != kInfinity) check(&ForwardTable::exp2, c.exp2, 0, "exp2");
          check(&ForwardTable::sigmoid, c.sigmoid, 0x1p-124f, "sigmoid");
          check(&ForwardTable::tanh, c.tanh, 0, "tanh");
        }
      }
    }
  }
}
TEST(Functions, ExactWhereItMatters) {
  for (const Isa isa : levels()) {
    const ForwardTable& table = heed::simd::table_for<ForwardTable>(isa);
    for (int n = -125; n <= 127; ++n) {
      float x = static_cast<float>(n);
      table.exp2(&x, 1);
      EXPECT_EQ(x, std::ldexp(1.f, n)) << name(isa);
    }
    float zero[] = {0, -0.f};
    table.tanh(zero, 2);
    EXPECT_EQ(zero[0], 0.f);
    EXPECT_EQ(zero[1], 0.f);
    float half = 0, one = 30;
    table.sigmoid(&half, 1);
    table.sigmoid(&one, 1);
    EXPECT_EQ(half, 0.5f);
    EXPECT_EQ(one, 1.f);
  }
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
//
// The tile primitives of every level that this machine has, each against the loop that says what
// it does: every number of keys, widths with and without remainders, every reach.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "primitives.hpp"

namespace support {
namespace {

using heed::simd::ForwardTable;
using heed::simd::kChunks;
using heed::simd::kGroup;
using heed::simd::kReachAll;
using heed::simd::Reach;

class Primitives : public ::testing::TestWithParam<Isa> {
 protected:
  const ForwardTable& simd = heed::simd::table_for<ForwardTable>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Levels, Primitives, ::testing::ValuesIn(levels()), level_name);

Reach any_reach(Random& r) {
  Reach reach{};
  for (Index c = 0; c < kChunks; ++c) {
    const Index first = r.integer(0, 4), last = r.integer(first, 4);
    reach.first[c] = static_cast<std::uint8_t>(first);
    reach.last[c] = static_cast<std::uint8_t>(last);
  }
  return reach;
}
bool reaches(const Reach& reach, Index key, Index lane) {
  const Index group = lane / kGroup;
  return group >= reach.first[key / kGroup] && group < reach.last[key / kGroup];
}

TEST_P(Primitives, PackTransposesAndScales) {
  Random r(1);
  for (const Index dim : {1, 2, 3, 4, 5, 15, 16, 33}) {
    for (Index count = 1; count <= kRows; ++count) {
      const Table q(r, count, dim);
      Floats packed(dim * kRows, kUntouched), factor(kRows);
      factor.randomise(r);
      simd.pack(packed.data(), q.rows.data(), factor.data(), count, dim);
      for (Index d = 0; d < dim; ++d) {
        for (Index lane = 0; lane < kRows; ++lane) {
          ASSERT_EQ(packed[d * kRows + lane],
                    lane < count ? q.rows[static_cast<std::size_t>(lane)][d] * factor[lane] : 0.f);
        }
      }
    }
  }
}

TEST_P(Primitives, ProductIsTheDotOfEveryPairInReach) {
  Random r(2);
  for (const Index dim : {1, 3, 16, 33}) {
    for (Index n = 1; n <= kKeys; ++n) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        const Table keys(r, n, dim);
        Floats packed(dim * kRows), tile(kKeys * kRows, kUntouched);
        packed.randomise(r);
        const Reach reach = repeat == 0 ? kReachAll : any_reach(r);
        simd.product(tile.data(), packed.data(), dim, keys.rows.data(), n, reach);
        for (Index j = 0; j < n; ++j) {
          for (Index lane = 0; lane < kRows; ++lane) {
            if (!reaches(reach, j, lane)) continue;
            double exact = 0, size = 0;
            for (Index d = 0; d < dim; ++d) {
              const double term = static_cast<double>(packed[d * kRows + lane]) *
                                  static_cast<double>(keys.rows[static_cast<std::size_t>(j)][d]);
              exact += term;
              size += std::abs(term);
            }
            ASSERT_NEAR(tile[j * kRows + lane], exact, 1e-6 * size + 1e-12)
                << "key " << j << " of " << n << ", lane " << lane << ", dim " << dim;
          }
        }
        for (Index i = n * kRows; i < kKeys * kRows; ++i) ASSERT_EQ(tile[i], kUntouched);
      }
    }
  }
}
TEST_P(Primitives, ProductOfALaneDoesNotDependOnTheReachOrTheNumberOfKeys) {
  Random r(3);
  const Index dim = 19;
  const Table keys(r, kKeys, dim);
  Floats packed(dim * kRows), whole(kKeys * kRows), part(kKeys * kRows);
  packed.randomise(r);
  simd.product(whole.data(), packed.data(), dim, keys.rows.data(), kKeys, kReachAll);
  for (Index n = 1; n <= kKeys; ++n) {
    const Reach reach = any_reach(r);
    simd.product(part.data(), packed.data(), dim, keys.rows.data(), n, reach);
    for (Index j = 0; j < n; ++j) {
      for (Index lane = 0; lane < kRows; ++lane) {
        if (!reaches(reach, j, lane)) continue;
        ASSERT_EQ(whole[j * kRows + lane], part[j * kRows + lane]);
      }
    }
  }
}

TEST_P(Primitives, HideIsASelect) {
  Random r(4);
  Floats tile(kKeys * kRows);
  tile.randomise(r);
  tile[5] = std::nanf("");
  heed::LaneBits visible[kKeys];
  for (auto& word : visible) word = r.bits();
  Floats before(kKeys * kRows);
  std::copy_n(tile.data(), kKeys * kRows, before.data());
  simd.hide(tile.data(), visible, 50);
  for (Index j = 0; j < kKeys; ++j) {
    for (Index lane = 0; lane < kRows; ++lane) {
      const Index at = j * kRows + lane;
      const bool hidden = j < 50 && (visible[j] >> lane & 1) == 0;
      if (hidden) {
        ASSERT_EQ(tile[at], -kInfinity);
      } else {
        ASSERT_EQ(std::memcmp(&tile.data()[at], &before.data()[at], sizeof(float)), 0);
      }
    }
  }
}

// One lane after the other, tile by tile, as the textbook says.
TEST_P(Primitives, AbsorbIsTheRunningSoftmax) {
  Random r(5);
  Floats max(kRows, -kInfinity), sum(kRows), moment(kRows), offset(kRows), alpha(kRows);
  offset.randomise(r);
  std::vector<std::vector<double>> seen(kRows);
  for (const Index n : {64, 1, 17, 33, 64, 5}) {
    Floats tile(kKeys * kRows), before(kKeys * kRows);
    tile.randomise(r);
    for (Index j = 0; j < n; ++j) {
      for (Index lane = 0; lane < kRows; ++lane) {
        float& x = tile[j * kRows + lane];
        x *= 20;
        if (lane == 3 || r.chance(0.2)) x = -kInfinity;   // lane 3 never sees anything
        seen[static_cast<std::size_t>(lane)].push_back(static_cast<double>(x) +
                                                       static_cast<double>(offset[lane]));
      }
    }
    std::copy_n(tile.data(), kKeys * kRows, before.data());
    simd.absorb(tile.data(), n, {max.data(), sum.data(), moment.data(), offset.data()},
                alpha.data(), kReachAll);
    for (Index lane = 0; lane < kRows; ++lane) {
      double m = -std::numeric_limits<double>::infinity(), l = 0, t = 0;
      for (const double x : seen[static_cast<std::size_t>(lane)]) m = std::max(m, x);
      if (lane == 3) {
        ASSERT_EQ(max[lane], -kInfinity);
        ASSERT_EQ(sum[lane], 0.f);
        continue;
      }
      for (const double x : seen[static_cast<std::size_t>(lane)]) {
        l += std::exp(x - m);
        if (x > -1e300) t += std::exp(x - m) * (x - m) / std::log(2.0);
      }
      ASSERT_NEAR(max[lane], m, 1e-5);
      ASSERT_NEAR(sum[lane], l, 1e-5 * l);
      ASSERT_NEAR(moment[lane], t, 1e-5 * (1 + std::abs(t)));
      for (Index j = 0; j < n; ++j) {
        const double x = static_cast<double>(before[j * kRows + lane] + offset[lane]);
        ASSERT_NEAR(tile[j * kRows + lane], std::exp(x - static_cast<double>(max[lane])), 1e-5);
      }
    }
  }
}

TEST_P(Primitives, WeightedSumAddsWhatIsInReach) {
  Random r(6);
  for (const Index width : {16, 32, 48, 64, 80, 96, 112, 128}) {
    for (const Index n : {1, 2, 15, 16, 17, 33, 63, 64}) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        const Table values(r, n, width);
        const Reach reach = repeat == 0 ? kReachAll : any_reach(r);
        const Index first = repeat == 2 ? r.integer(0, 63) : 0;
        const Index last = repeat == 2 ? r.integer(first, 64) : 64;
        Floats tile(kKeys * kRows), alpha(kRows), out(kRows * width), expected(kRows * width);
        tile.randomise(r);
        alpha.randomise(r);
        out.randomise(r);
        // Weights outside the reach are 0, as absorb makes them.
        for (Index j = 0; j < n; ++j) {
          for (Index lane = 0; lane < kRows; ++lane) {
            if (!reaches(reach, j, lane)) tile[j * kRows + lane] = 0;
          }
        }
        std::copy_n(out.data(), kRows * width, expected.data());
        simd.weighted_sum(out.data(), width, tile.data(), values.rows.data(), n, alpha.data(),
                          reach, first, last);
        for (Index lane = 0; lane < kRows; ++lane) {
          for (Index d = 0; d < width; ++d) {
            const float found = out[lane * width + d];
            if (lane < first || lane >= last) {
              ASSERT_EQ(found, expected[lane * width + d])
                  << "lane " << lane << " is not asked for";
              continue;
            }
            const Exact exact = weighted(expected[lane * width + d] * alpha[lane], tile, lane,
                                         values, d, n);
            ASSERT_NEAR(found, exact.value, 2e-6 * exact.size + 1e-12)
                << "lane " << lane << ", column " << d;
          }
        }
      }
    }
  }
}

TEST_P(Primitives, AllFiniteFindsEveryElement) {
  Random r(7);
  for (const Index width : {1, 3, 8, 15, 16, 17, 40}) {
    Table rows(r, 5, width);
    EXPECT_TRUE(simd.all_finite(rows.rows.data(), 5, width));
    for (Index i = 0; i < 5 * width; ++i) {
      float& x = rows.memory[static_cast<std::size_t>(1 + i)];
      const float kept = x;
      for (const float poison : {kInfinity, -kInfinity, std::nanf("")}) {
        x = poison;
        EXPECT_FALSE(simd.all_finite(rows.rows.data(), 5, width)) << i << " of " << width;
      }
      x = 3e38f;
      EXPECT_TRUE(simd.all_finite(rows.rows.data(), 5, width));
      x = kept;
    }
    rows.memory[0] = std::nanf("");   // before the first row
    EXPECT_TRUE(simd.all_finite(rows.rows.data(), 5, width));
  }
}

TEST_P(Primitives, LaneWiseChangesTouchTheirKeysOnly) {
  Random r(8);
  Floats tile(kKeys * kRows), term(kRows), lane_position(kRows), key_position(kKeys);
  tile.randomise(r);
  term.randomise(r);
  for (Index i = 0; i < kRows; ++i) lane_position[i] = static_cast<float>(r.integer(0, 500));
  for (Index i = 0; i < kKeys; ++i) key_position[i] = static_cast<float>(r.integer(0, 500));
  const auto expect = [&](const char* what, auto call, auto formula) {
    for (const Index n : {1, 7, 16, 64}) {
      Floats x(kKeys * kRows);
      std::copy_n(tile.data(), kKeys * kRows, x.data());
      call(x.data(), n);
      for (Index j = 0; j < kKeys; ++j) {
        for (Index lane = 0; lane < kRows; ++lane) {
          const float before = tile[j * kRows + lane], found = x[j * kRows + lane];
          if (j >= n) {
            ASSERT_EQ(found, before) << what;
          } else {
            const double exact = formula(static_cast<double>(before), j, lane);
            ASSERT_NEAR(found, exact, 1e-6 * (1 + std::abs(exact))) << what;
          }
        }
      }
    }
  };
  expect("scale", [&](float* x, Index n) { simd.scale(x, n, term.data()); },
         [&](double x, Index, Index lane) { return x * static_cast<double>(term[lane]); });
  expect("shift", [&](float* x, Index n) { simd.shift(x, n, term.data()); },
         [&](double x, Index, Index lane) { return x + static_cast<double>(term[lane]); });
  expect("slope",
         [&](float* x, Index n) {
           simd.slope(x, n, term.data(), lane_position.data(), key_position.data(), kReachAll);
         },
         [&](double x, Index j, Index lane) {
           return x - static_cast<double>(term[lane]) *
                          std::abs(static_cast<double>(lane_position[lane] - key_position[j]));
         });
  expect("soft_cap", [&](float* x, Index n) { simd.soft_cap(x, n, 0.7f, kReachAll); },
         [&](double x, Index, Index) {
           return static_cast<double>(0.7f) * std::tanh(x / static_cast<double>(0.7f));
         });
}
TEST_P(Primitives, BandPicksTheClampedDistance) {
  Random r(9);
  for (const Index rows : {1, 2, 17, 127}) {
    Floats band(rows * kRows), tile(kKeys * kRows), before(kKeys * kRows);
    band.randomise(r);
    tile.randomise(r);
    std::copy_n(tile.data(), kKeys * kRows, before.data());
    alignas(64) std::int32_t start[kRows], offset[kKeys];
    for (auto& x : start) x = static_cast<std::int32_t>(r.integer(-40, 150));
    for (auto& x : offset) x = static_cast<std::int32_t>(r.integer(-60, 60));
    simd.band(tile.data(), 61, band.data(), rows, start, offset, kReachAll);
    for (Index j = 0; j < kKeys; ++j) {
      for (Index lane = 0; lane < kRows; ++lane) {
        const Index row = std::clamp<Index>(start[lane] - offset[j], 0, rows - 1);
        ASSERT_EQ(tile[j * kRows + lane],
                  before[j * kRows + lane] + (j < 61 ? band[row * kRows + lane] : 0.f));
      }
    }
  }
}
TEST_P(Primitives, WeighIsTheShareOfTheSumAndZeroForHiddenKeys) {
  for (Index n = 1; n <= 40; ++n) {
    std::vector<float> x;
    for (Index i = 0; i < n; ++i)
      x.push_back(i % 5 == 4 ? -kInfinity : 0.3f * static_cast<float>(i) - 4);
    std::vector<float> y = x;
    simd.weigh(y.data(), n, 1.5f, 3.f);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]) - 1.5) / 3;
      ASSERT_NEAR(y[i], exact, 2e-6 * exact);
    }
  }
}

}  // namespace
}  // namespace support

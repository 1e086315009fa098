// SPDX-License-Identifier: Apache-2.0
//
// The primitives of a block with few query rows, at every level that this machine has, each against
// the loop that says what it does: every number of rows and keys, with and without rows to fetch.

#include <cmath>

#include "primitives.hpp"

namespace support {
namespace {

using heed::simd::Ahead;
using heed::simd::DecodeTable;

class FewRows : public ::testing::TestWithParam<Isa> {
 protected:
  const DecodeTable& simd = heed::simd::table_for<DecodeTable>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Levels, FewRows, ::testing::ValuesIn(levels()), level_name);

constexpr Index kCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 29, 64};

TEST_P(FewRows, DotsAreThoseOfEveryPair) {
  Random r(1);
  for (const Index width : {16, 48, 64, 96}) {
    for (const Index count : kCounts) {
      Floats queries((count + 3) / 4 * 4 * width);
      for (Index i = 0; i < count * width; ++i) queries[i] = static_cast<float>(r.normal());
      for (Index n = 1; n <= kKeys; ++n) {
        const Table keys(r, n, width), next(r, 1 + n / 2, 2 * width);
        const Ahead ahead = n % 2 == 0 ? Ahead{} : Ahead{next.rows.data(), 1 + n / 2, 2 * width};
        Floats tile(kKeys * kRows, kUntouched);
        simd.dots(tile.data(), queries.data(), count, width, keys.rows.data(), n, ahead);
        for (Index j = 0; j < kKeys; ++j) {
          for (Index lane = 0; lane < kRows; ++lane) {
            const float found = tile[j * kRows + lane];
            if (j >= n || lane >= (count + 3) / 4 * 4) {
              ASSERT_EQ(found, kUntouched) << "key " << j << " of " << n << ", lane " << lane;
            } else if (lane < count) {
              Exact exact;
              for (Index d = 0; d < width; ++d) {
                exact.add(static_cast<double>(queries[lane * width + d]) *
                          static_cast<double>(keys.rows[static_cast<std::size_t>(j)][d]));
              }
              ASSERT_NEAR(found, exact.value, 2e-6 * exact.size)
                  << "key " << j << ", lane " << lane;
            }
          }
        }
      }
    }
  }
}

// Rows of random logits, with -inf here and there, a row that sees nothing, one with a NaN and one
// with +inf; the state as some earlier tile left it, or none.
TEST_P(FewRows, AbsorbIsTheRunningSoftmax) {
  Random r(2);
  for (const Index count : kCounts) {
    for (Index n = 1; n <= kKeys; ++n) {
      const bool fresh = n % 3 == 0, with_moment = n % 2 == 0;
      Floats tile(kKeys * kRows), before(kKeys * kRows), offset(kRows), alpha(kRows);
      Floats max(kRows), sum(kRows), moment(kRows), old_max(kRows), old_sum(kRows), old_moment(kRows);
      tile.randomise(r);
      const Index blind = r.integer(0, count - 1), poisoned = r.integer(0, count - 1);
      for (Index lane = 0; lane < kRows; ++lane) {
        offset[lane] = lane % 2 == 0 ? 0.f : static_cast<float>(r.normal());
        max[lane] = fresh ? -kInfinity : static_cast<float>(r.normal());
        sum[lane] = fresh ? 0.f : 1.f + static_cast<float>(std::abs(r.normal()));
        moment[lane] = fresh ? 0.f : static_cast<float>(r.normal());
        old_max[lane] = max[lane], old_sum[lane] = sum[lane], old_moment[lane] = moment[lane];
        for (Index j = 0; j < n; ++j) {
          float& x = tile[j * kRows + lane];
          x *= 5;
          if (lane == blind || r.integer(0, 4) == 0) x = -kInfinity;
        }
      }
      const float poison = n % 4 < 2 ? std::nanf("") : kInfinity;
      if (poisoned != blind) tile[(n - 1) * kRows + poisoned] = poison;
      std::copy_n(tile.data(), kKeys * kRows, before.data());
      simd.absorb(tile.data(), n,
                  {max.data(), sum.data(), with_moment ? moment.data() : nullptr, offset.data()},
                  alpha.data(), count);
      for (Index lane = 0; lane < count; ++lane) {
        if (lane == poisoned && poisoned != blind) {
          ASSERT_TRUE(std::isnan(sum[lane])) << "lane " << lane;
          continue;
        }
        double m = static_cast<double>(old_max[lane]);
        const auto logit = [&](Index j) {
          return static_cast<double>(before[j * kRows + lane]) + static_cast<double>(offset[lane]);
        };
        for (Index j = 0; j < n; ++j) m = std::max(m, logit(j));
        const double a = fresh ? 0 : std::exp(static_cast<double>(old_max[lane]) - m);
        double l = a * static_cast<double>(old_sum[lane]), t = 0;
        if (!fresh) {
          t = a * (static_cast<double>(old_moment[lane]) +
                   (static_cast<double>(old_max[lane]) - m) / std::log(2.0) *
                       static_cast<double>(old_sum[lane]));
        }
        for (Index j = 0; j < n; ++j) {
          const double p = std::isinf(logit(j)) ? 0 : std::exp(logit(j) - m);
          ASSERT_NEAR(tile[j * kRows + lane], p, 2e-6) << "key " << j << ", lane " << lane;
          l += p;
          if (p > 0) t += p * (logit(j) - m) / std::log(2.0);
        }
        ASSERT_NEAR(sum[lane], l, 1e-5 * l);
        if (l > 0) {
          ASSERT_NEAR(max[lane], m, 1e-5);
        } else {
          ASSERT_EQ(max[lane], -kInfinity);
        }
        ASSERT_NEAR(alpha[lane], a, 1e-5) << "count " << count << ", n " << n;
        if (with_moment) {
          ASSERT_NEAR(moment[lane], t, 2e-5 * (1 + std::abs(t)));
        }
      }
      for (Index j = n; j < kKeys; ++j) {   // of keys that are not there nothing is asked for
        for (Index lane = (count + 3) / 4 * 4; lane < kRows && count < 13; ++lane) {
          ASSERT_EQ(tile[j * kRows + lane], before[j * kRows + lane]);
        }
      }
    }
  }
}

// Nor do they depend on how many others there are: grouped heads are heads with copied keys.
TEST_P(FewRows, AbsorbDoesNotDependOnTheNumberOfRows) {
  Random r(6);
  Floats tile(kKeys * kRows), offset(kRows), alpha(kRows);
  tile.randomise(r);
  for (const Index n : {1, 7, 16, 61, 64}) {
    std::vector<float> first;
    for (const Index count : kCounts) {
      Floats x(kKeys * kRows), max(kRows, -kInfinity), sum(kRows), moment(kRows);
      std::copy_n(tile.data(), kKeys * kRows, x.data());
      simd.absorb(x.data(), n, {max.data(), sum.data(), moment.data(), offset.data()},
                  alpha.data(), count);
      std::vector<float> found{max[0], sum[0], moment[0], alpha[0]};
      for (Index j = 0; j < n; ++j) found.push_back(x[j * kRows]);
      if (first.empty()) first = found;
      ASSERT_EQ(found, first) << "count " << count << ", n " << n;
    }
  }
}

// A lane's bits are its own, whatever stands in the others.
TEST_P(FewRows, AbsorbIsLaneLocal) {
  Random r(3);
  for (const Index count : {2, 4, 7, 13}) {
    Floats tile(kKeys * kRows), other(kKeys * kRows), offset(kRows), alpha(kRows);
    tile.randomise(r);
    std::copy_n(tile.data(), kKeys * kRows, other.data());
    for (Index j = 0; j < kKeys; ++j) other[j * kRows] = std::nanf("");
    for (Floats* x : {&tile, &other}) {
      Floats max(kRows, -kInfinity), sum(kRows), moment(kRows);
      simd.absorb(x->data(), 61, {max.data(), sum.data(), moment.data(), offset.data()},
                  alpha.data(), count);
    }
    for (Index j = 0; j < 61; ++j) {
      for (Index lane = 1; lane < count; ++lane) {
        ASSERT_EQ(tile[j * kRows + lane], other[j * kRows + lane]);
      }
    }
  }
}

TEST_P(FewRows, WeightedSumAddsToTheRowsAskedFor) {
  Random r(4);
  for (const Index width : {16, 48, 64, 80, 128, 144}) {
    for (const Index n : {1, 2, 15, 33, 63, 64}) {
      for (const Index count : {1, 2, 3, 4, 5, 11}) {
        const Index first = r.integer(0, 5), last = first + count;
        const Table values(r, n, width), next(r, n, width + 16);
        Floats tile(kKeys * kRows), alpha(kRows), out(kRows * width), before(kRows * width);
        tile.randomise(r);
        alpha.randomise(r);
        out.randomise(r);
        std::copy_n(out.data(), kRows * width, before.data());
        simd.weighted_sum(out.data(), width, tile.data(), values.rows.data(), n, alpha.data(), first,
                          last, n % 2 == 0 ? Ahead{} : Ahead{next.rows.data(), n, width + 16});
        for (Index lane = 0; lane < kRows; ++lane) {
          for (Index d = 0; d < width; ++d) {
            const float found = out[lane * width + d];
            if (lane < first || lane >= last) {
              ASSERT_EQ(found, before[lane * width + d]) << "lane " << lane << " is not asked for";
              continue;
            }
            const Exact exact = weighted(before[lane * width + d] * alpha[lane], tile, lane,
                                         values, d, n);
            ASSERT_NEAR(found, exact.value, 2e-6 * exact.size + 1e-12)
                << "lane " << lane << ", column " << d;
          }
        }
      }
    }
  }
}

TEST_P(FewRows, SharesAreWeightedSumsOverRows) {
  Random r(5);
  for (const Index count : {1, 3, 4, 6, 8, 13}) {
    const Index stride = (count + 3) / 4 * 4;
    for (const Index n : {1, 2, 3, 4, 7, 64}) {
      Floats tile(kKeys * kRows), kept(kKeys * stride, kUntouched), factor(stride), share(kKeys);
      tile.randomise(r);
      for (Index i = 0; i < count; ++i) factor[i] = static_cast<float>(r.normal());
      simd.keep(kept.data(), stride, tile.data(), n, count);
      for (Index j = 0; j < n; ++j) {
        for (Index lane = 0; lane < stride; ++lane) {
          ASSERT_EQ(kept[j * stride + lane], lane < count ? tile[j * kRows + lane] : 0.f);
        }
      }
      simd.share(share.data(), kept.data(), stride, n, factor.data());
      for (Index j = 0; j < n; ++j) {
        double exact = 0;
        for (Index lane = 0; lane < count; ++lane) {
          exact += static_cast<double>(tile[j * kRows + lane]) * static_cast<double>(factor[lane]);
        }
        ASSERT_NEAR(share[j], exact, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace support

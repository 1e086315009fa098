// SPDX-License-Identifier: Apache-2.0

#include "heed/fit.hpp"

#include <gtest/gtest.h>

#include "heed/heed.hpp"

namespace heed {
namespace {

// sum of (c - target)^2 / 2
struct Bowl {
  std::vector<float> target;
  double operator()(List<float> c, float* gradient) const {
    double loss = 0;
    for (Index i = 0; i < c.size; ++i) {
      const float off = c[i] - target[std::size_t(i)];
      loss += 0.5 * double{off} * double{off};
      if (gradient != nullptr) gradient[i] = off;
    }
    return loss;
  }
};

TEST(FitHeadScales, FindsTheBottomWithinTheConstraint) {
  const HeadScaleFit fit = fit_head_scales(3, Bowl{{1.2f, 2.5f, 0.4f}});
  EXPECT_NEAR(fit.scales[0], 1.2f, 0.02f);
  EXPECT_NEAR(fit.scales[1], 2.5f, 0.02f);
  EXPECT_EQ(fit.scales[2], 1.0f);
  EXPECT_EQ(fit.losses.size(), 200u);
  EXPECT_LT(fit.losses.back(), fit.losses.front());
  FitOptions free;
  free.least = 0;
  EXPECT_NEAR(fit_head_scales(3, Bowl{{1.2f, 2.5f, 0.4f}}, free).scales[2], 0.4f, 0.02f);
}

TEST(FitHeadScales, TriesTheGridFirst) {
  std::vector<std::vector<float>> asked;
  FitOptions options;
  options.grid = {1, 1.5f, 2, 2.5f};
  options.steps = 1;
  const Bowl bowl{{2, 1.5f}};
  const auto fit = fit_head_scales(
      2,
      [&](List<float> c, float* gradient) {
        EXPECT_EQ(gradient == nullptr, asked.size() < 4);
        asked.push_back({c[0], c[1]});
        return bowl(c, gradient);
      },
      options);
  const std::vector<std::vector<float>> expected{
      {1, 1}, {1.5f, 1.5f}, {2, 2}, {2.5f, 2.5f}, {1.5f, 1.5f}};   // of equals the first
  EXPECT_EQ(asked, expected);
  EXPECT_EQ(fit.uniform, 1.5f);
  EXPECT_EQ(fit.grid_losses.size(), 4u);
  // AdamW's first step has the length of the rate, here 1/20 of it; one head stands at its target.
  EXPECT_NEAR(fit.scales[0], 1.5f + 0.1f / 20, 1e-5f);
  EXPECT_EQ(fit.scales[1], 1.5f);
}

TEST(FitHeadScales, WarmsUpAndCoolsDown) {
  std::vector<double> rates;
  FitOptions options;
  Index grid = 0;
  options.progress = [&](const FitProgress& p) {
    if (p.grid) {
      ++grid;
    } else {
      rates.push_back(p.rate);
      EXPECT_EQ(p.step, Index(rates.size()));
      EXPECT_EQ(p.steps, 200);
      EXPECT_EQ(p.scales.size, 1);
    }
  };
  fit_head_scales(1, Bowl{{1.3f}}, options);
  EXPECT_EQ(grid, 11);
  ASSERT_EQ(rates.size(), 200u);
  EXPECT_NEAR(rates[0], 0.1 / 20, 1e-12);
  EXPECT_NEAR(rates[19], 0.1, 1e-12);
  EXPECT_NEAR(rates[20], 0.1, 1e-12);
  EXPECT_NEAR(rates[110], 0.055, 1e-12);
  EXPECT_NEAR(rates[199], 0.01, 1e-4);
  for (std::size_t t = 21; t < 200; ++t) EXPECT_LE(rates[t], rates[t - 1]);
}

std::string refusal(Index count, const FitOptions& options, double loss, float slope) {
  try {
    fit_head_scales(
        count,
        [&](List<float>, float* gradient) {
          if (gradient != nullptr) gradient[0] = slope;
          return gradient == nullptr ? 1.0 : loss;
        },
        options);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}
TEST(FitHeadScales, RefusesInWords) {
  EXPECT_EQ(refusal(0, {}, 1, 0), "heed::fit_head_scales: count is 0; expected at least 1 head");
  EXPECT_NE(refusal(1, {}, NAN, 0).find("the loss is nan in step 1"), std::string::npos);
  EXPECT_NE(refusal(1, {}, 1, NAN).find("the gradient is not finite in step 1"), std::string::npos);
  FitOptions options;
  options.grid = {1, -2};
  EXPECT_NE(refusal(1, options, 1, 0).find("the grid has -2"), std::string::npos);
  options = {};
  options.rate = 0;
  EXPECT_NE(refusal(1, options, 1, 0).find("rate is 0"), std::string::npos);
}

// Attention with known factors is the teacher; its factors are found again from its outputs.
TEST(FitHeadScales, FindsTheFactorsOfAttention) {
  constexpr Index heads = 4, time = 96, dim = 8, size = heads * time * dim;
  std::vector<float> q(size), k(size), v(size), target(size), out(size), lse(heads * time);
  std::vector<float> dout(size), dq(size), dk(size), dv(size);
  std::uint64_t state = 1;
  for (std::vector<float>* x : {&q, &k, &v}) {
    for (float& a : *x) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      a = float(state >> 40) / float(1 << 23) * 2 - 2;
    }
  }
  const std::array<Index, 4> extent{1, heads, time, dim};
  const auto view = [&](std::vector<float>& x) { return View<float>(x.data(), extent); };
  const std::vector<float> secret{1, 1.4f, 2.2f, 3};
  Into teacher;
  teacher.out = view(target);
  attend(teacher, view(q), view(k), view(v), causal, HeadScale{secret});

  const auto fit = fit_head_scales(heads, [&](List<float> c, float* gradient) {
    Into into;
    into.out = view(out);
    into.lse = RowView(lse.data(), {1, heads, time});
    attend(into, view(q), view(k), view(v), causal, HeadScale{c});
    double loss = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      dout[i] = out[i] - target[i];
      loss += 0.5 * double{dout[i]} * double{dout[i]};
    }
    if (gradient == nullptr) return loss;
    const auto grad = attend_backward(GradientsInto{view(dq), view(dk), view(dv), {}}, view(q),
                                      view(k), view(v), view(out), into.lse, view(dout), causal,
                                      HeadScale{c});
    for (Index h = 0; h < heads; ++h) {
      gradient[h] = float(grad.of<HeadScale>().values[std::size_t(h)]);
    }
    return loss;
  });
  EXPECT_GT(fit.uniform, 1.0f);
  for (std::size_t h = 0; h < secret.size(); ++h) EXPECT_NEAR(fit.scales[h], secret[h], 0.05f);
}

}  // namespace
}  // namespace heed

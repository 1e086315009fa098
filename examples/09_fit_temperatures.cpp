// SPDX-License-Identifier: Apache-2.0
//
// Attention without positions spreads out when the text gets longer than it was made for: every
// further key takes its share. One factor per head on q.k sharpens it again. Here four heads look
// up values by key; they differ in how well they tell keys apart, and their factors are fitted to
// a text sixteen times as long, with everything else frozen.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/fit.hpp>
#include <heed/heed.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, heads, time, dim]
using heed::Index;

constexpr Index heads = 4, dim = 16;
const float sharpness[heads] = {7.0f, 6.0f, 5.0f, 4.2f};

struct Lookup {
  Tensor q, k, v, right;
  explicit Lookup(Index length) : q(1, heads, length, dim), k(q), v(q), right(q) {
    std::uint64_t state = 1;
    const auto number = [&state] {  // uniform, deviation 1
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (float(state >> 40) / 8388608.0f - 1.0f) * 1.732f;
    };
    for (Tensor* x : {&k, &v}) {
      for (Index i = 0; i < x->size(); ++i) x->data()[i] = number();
    }
    for (Index h = 0; h < heads; ++h) {
      for (Index t = 0; t < length; ++t) {  // a noisy copy of an older key asks for its value
        const Index key = Index(state >> 33) % (t + 1);
        for (Index d = 0; d < dim; ++d) {
          q(0, h, t, d) = (k(0, h, key, d) + 0.4f * number()) * sharpness[h] / 2;
          right(0, h, t, d) = v(0, h, key, d);
        }
      }
    }
  }
  // Mean squared error; where grad is given, d loss / d scales.
  double loss(heed::List<float> scales, float* grad) const {
    const auto policy = heed::pack(heed::causal, heed::HeadScale{scales});
    const auto saved = heed::attend_saving(q, k, v, policy);
    const Tensor error = saved.out - right;
    double sum = 0;
    for (Index i = 0; i < error.size(); ++i) sum += double(error.data()[i] * error.data()[i]);
    if (grad == nullptr) return sum / double(error.size());
    const Tensor dout = error * (2.0f / float(error.size()));
    const auto gradient = heed::attend_backward(q, k, v, saved, dout, policy);
    for (Index h = 0; h < heads; ++h) {
      grad[h] = float(gradient.of<heed::HeadScale>().values[std::size_t(h)]);
    }
    return sum / double(error.size());
  }
};

int main() {
  const Lookup brief(32), extended(512);
  const std::vector<float> ones(heads, 1.0f);
  std::printf("error at length 32: %.2f, at 512: %.2f\n", brief.loss(ones, nullptr),
              extended.loss(ones, nullptr));

  const auto fit = heed::fit_head_scales(
      heads, [&](heed::List<float> c, float* grad) { return extended.loss(c, grad); });
  const std::vector<float> uniform(heads, fit.uniform);
  std::printf("best factor for all heads: %.1f, error at 512: %.2f\n", double(fit.uniform),
              extended.loss(uniform, nullptr));
  std::printf("factors per head:");
  for (const float c : fit.scales) std::printf(" %.1f", double(c));
  std::printf(", error at 512: %.2f\n", extended.loss(fit.scales, nullptr));
}

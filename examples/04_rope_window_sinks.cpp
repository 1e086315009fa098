// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions, a sliding window and attention sinks, as many language models have them. Masks
// are composed like sets: causal & (Window{8} | Sinks{2}) is "no later key, and of the others the
// last eight or the first two". All queries and keys are the same vector here, so what the picture
// shows is position alone: what the masks leave, and how RoPE prefers near keys.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;
using heed::Index;

int main() {
  constexpr Index time = 24, dim = 16;
  Tensor q(1, 1, time, dim), k(1, 1, time, dim), v(1, 1, time, 1), out(1, 1, time, 1);
  q.setConstant(1);
  k.setConstant(1);
  for (Index i = 0; i < time; ++i) v(0, 0, i, 0) = float(i);  // the output: the mean place attended

  const auto mask = heed::causal & (heed::Window{8} | heed::Sinks{2});
  const heed::Rope rope{.theta = 100, .pairing = heed::Pairing::halves};

  // Weights are made for whoever asks; without this member nothing of their size exists.
  Tensor weights(1, 1, time, time);
  heed::attend(heed::Into{.out = out, .weights = {.to = weights}}, q, k, v, mask, rope);

  std::printf(
      "weights of each query (row) over the keys (columns)\n"
      ". below 4 %%   + below 15 %%   # more   blank: hidden\n\n");
  for (Index i = 0; i < time; ++i) {
    std::printf("%4td  ", i);
    for (Index j = 0; j <= i; ++j) {
      const float w = weights(0, 0, i, j);
      std::printf(" %c", w == 0 ? ' ' : w < 0.04f ? '.' : w < 0.15f ? '+' : '#');
    }
    std::printf("%*s%5.2f\n", int(2 * (time - i) + 2), "", double(out(0, 0, i, 0)));
  }
  std::printf("%*s\n", int(2 * time + 15), "mean key");

  // RoPE reads distances only: the same text far from the origin gets the same output.
  std::vector<Index> far(time);
  for (Index i = 0; i < time; ++i) far[std::size_t(i)] = 1'000'000 + i;
  const Tensor here = heed::attend(q, k, v, heed::causal & heed::Window{8}, rope);
  const Tensor there = heed::attend(q, k, v, heed::causal & heed::Window{8}, rope,
                                    heed::Positions{.q = far, .k = far});
  float difference = 0;
  for (Index i = 0; i < time; ++i) {
    difference = std::max(difference, std::abs(here(0, 0, i, 0) - there(0, 0, i, 0)));
  }
  std::printf("\nthe same text begun at position 1,000,000 instead of 0: largest difference %.2f\n",
              double(difference));
}

// SPDX-License-Identifier: Apache-2.0
//
// No position encoding, one temperature per head (NoPE + HeadScale). Without positions attention
// spreads as the text grows; a scale c > 1, which multiplies 1/sqrt(dim), draws it together again.
// The entropy of a row says how far it spreads: e^entropy is about the number of keys it attends.
// It falls out of the same pass as the output.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <random>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;
using heed::Index;

// The same numbers on every machine: between -2 and 2.
Tensor random(unsigned seed, Index time, Index dim) {
  std::mt19937 next(seed);
  Tensor x(1, 1, time, dim);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = float(double(next()) / 4294967296.0 * 4 - 2);
  return x;
}

int main() {
  constexpr Index heads = 5, rows = 64, dim = 32;
  const std::array<float, heads> scales{0.5f, 1, 1.5f, 2, 3};

  std::printf("keys that a row attends (e^entropy), mean of the last 64 rows\n\n   text");
  for (const float c : scales) std::printf("   c = %.1f", double(c));

  for (const Index time : {64, 256, 1024, 4096}) {
    const Tensor k = random(1, time, dim), v = random(2, time, dim);  // one kv head for all
    const Tensor queries = random(3, rows, dim);
    // The same queries in every head: a view whose stride from head to head is 0.
    const heed::View<const float> q(queries.data(), {1, heads, rows, dim}, {0, 0, dim});
    Tensor out(1, heads, rows, dim);
    Eigen::Tensor<float, 3, Eigen::RowMajor> entropy(1, heads, rows);
    heed::attend(heed::Into{.out = out, .entropy = entropy}, q, k, v, heed::causal,
                 heed::HeadScale{scales});

    std::printf("\n%7td", time);
    for (Index h = 0; h < heads; ++h) {
      double mean = 0;
      for (Index i = 0; i < rows; ++i) mean += double(entropy(0, h, i)) / double(rows);
      std::printf("%10.1f", std::exp(mean));
    }
  }
  std::printf("\n\nEvery head spreads as the text grows; a larger scale holds it together.\n");
}

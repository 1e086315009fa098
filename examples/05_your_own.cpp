// SPDX-License-Identifier: Apache-2.0
//
// Your own policies: a mask from a predicate, a formula for each logit, and a score that walks.
// Tiles of keys come from the newest to the oldest, so a state with a `carry` (a number per query
// row) can hand on what it has seen: here, how many keys a row saw that are newer than this one.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;
using heed::Index;

// ALiBi by rank: a key loses `slope` for every visible key between it and the query. Hidden logits
// are -inf when a walking score is called, so they can be told apart.
struct RankBias {
  float slope;

  struct State {
    float carry[heed::kRows] = {};  // keys seen so far, per row
  };
  State begin(const heed::Rows&) const { return {}; }
  void forward(const heed::Tile& tile, State& state) const {
    heed::Column seen(state.carry);
    for (Index key = tile.keys.count - 1; key >= 0; --key) {
      auto logit = tile.logits.column(key);
      logit -= slope * seen;
      seen += (logit > -std::numeric_limits<float>::infinity()).cast<float>();
    }
  }
};

double largest_difference(const Tensor& a, const Tensor& b) {
  float largest = 0;
  for (Index i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a.data()[i] - b.data()[i]));
  }
  return double(largest);
}

int main() {
  constexpr Index time = 200, dim = 8;
  Tensor q(1, 2, time, dim), k(1, 2, time, dim), v(1, 2, time, dim);
  for (Index i = 0; i < q.size(); ++i) {
    q.data()[i] = std::sin(0.7f * float(i));
    k.data()[i] = std::sin(0.3f * float(i) + 1);
    v.data()[i] = std::cos(0.2f * float(i));
  }

  // 1. A mask: every third key, and oneself.
  const auto thirds = heed::where([](Index query, Index key) { return (query - key) % 3 == 0; });
  const Tensor strided = heed::attend(q, k, v, heed::causal & thirds);

  // 2. A formula and its derivative: a soft cap, which heed has built in with its own tanh.
  const auto formula = [](float x) { return 2 * std::tanh(x / 2); };
  const auto derivative = [](float x) { return 1 - std::tanh(x / 2) * std::tanh(x / 2); };
  const auto cap = heed::pointwise(formula, derivative);
  const Tensor mine = heed::attend(q, k, v, heed::causal, cap);
  const Tensor built_in = heed::attend(q, k, v, heed::causal, heed::SoftCap{2});

  // 3. A walking score. Where only every third key is visible, rank is distance / 3.
  const std::vector<float> slopes{0.1f, 0.1f};
  const Tensor rank = heed::attend(q, k, v, heed::causal & thirds, RankBias{0.3f});
  const Tensor alibi = heed::attend(q, k, v, heed::causal & thirds, heed::Alibi{slopes});

  std::printf("largest difference between outputs\n");
  std::printf("  my soft cap, heed::SoftCap             %.4f\n",
              largest_difference(mine, built_in));
  std::printf("  RankBias, Alibi, both on thirds        %.4f\n", largest_difference(rank, alibi));
  std::printf("  RankBias, no bias, both on thirds      %.4f\n", largest_difference(rank, strided));
}

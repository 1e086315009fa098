// SPDX-License-Identifier: Apache-2.0
//
// From logits to the next token: the most likely one, or a draw from
//   p = softmax(logits / temperature) over the top_k likeliest tokens.
// The same seed gives the same draws on every machine. Ties go to the smaller id.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "weights.hpp"

namespace lm {

struct Likely {
  int id = 0;
  double probability = 0;  // among the whole vocabulary, at temperature 1
  float logit = 0;
};

// ln(sum(e^logit)), of one row.
template <class Row>
double log_sum(const Row& logits) {
  const float most = logits.maxCoeff();
  return static_cast<double>(most) +
         std::log(static_cast<double>((logits.array() - most).exp().sum()));
}

// The n likeliest tokens of logits [1, vocabulary], likeliest first.
inline std::vector<Likely> likeliest(const Matrix& logits, Index n) {
  std::vector<int> ids(static_cast<std::size_t>(logits.cols()));
  std::iota(ids.begin(), ids.end(), 0);
  n = std::clamp<Index>(n, 0, logits.cols());
  std::partial_sort(ids.begin(), ids.begin() + n, ids.end(), [&](int a, int b) {
    return logits(0, a) != logits(0, b) ? logits(0, a) > logits(0, b) : a < b;
  });
  const double all = log_sum(logits.row(0));
  std::vector<Likely> result;
  for (Index i = 0; i < n; ++i) {
    const int id = ids[static_cast<std::size_t>(i)];
    result.push_back({id, std::exp(static_cast<double>(logits(0, id)) - all), logits(0, id)});
  }
  return result;
}

struct Sampling {
  double temperature = 0;  // 0: always the likeliest token
  Index top_k = 40;        // 0: the whole vocabulary
  std::uint64_t seed = 1;
};

class Sampler {
 public:
  explicit Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) {}

  int operator()(const Matrix& logits) {
    if (!(sampling_.temperature > 0)) return likeliest(logits, 1).front().id;
    const std::vector<Likely> top =
        likeliest(logits, sampling_.top_k == 0 ? logits.cols() : sampling_.top_k);
    std::vector<double> until;  // running sums of the unnormalised probabilities
    double sum = 0;
    for (const Likely& token : top) {
      sum += std::exp(static_cast<double>(token.logit - top.front().logit) / sampling_.temperature);
      until.push_back(sum);
    }
    // 53 random bits; the standard's distributions differ between libraries.
    const double drawn = static_cast<double>(random_() >> 11) * 0x1p-53 * sum;
    const auto at = std::upper_bound(until.begin(), until.end() - 1, drawn) - until.begin();
    return top[static_cast<std::size_t>(at)].id;
  }

 private:
  Sampling sampling_;
  std::mt19937_64 random_;
};

}  // namespace lm

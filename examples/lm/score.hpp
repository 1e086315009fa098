// SPDX-License-Identifier: Apache-2.0
//
// -ln p of each token of a text given those before it, added up.

#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "model.hpp"
#include "sampler.hpp"

namespace lm {

struct Score {
  double nats = 0;  // the sum of -ln p
  Index predicted = 0;

  double perplexity() const {
    return std::exp(predicted == 0 ? 0.0 : nats / static_cast<double>(predicted));
  }
};

// Reads tokens after what the cache holds and adds up all but the first, which nothing foretells.
// The logits of a piece take kPiece * vocabulary floats. progress(tokens read so far).
inline void score_text(const Model& model, std::span<const int> tokens, KvCache& cache,
                       Score& score, Observer* observer = nullptr,
                       const std::function<void(Index tokens)>& progress = {}) {
  const Index n = static_cast<Index>(tokens.size());
  model.read(
      tokens, cache,
      [&](Index first, const Matrix& vectors) {
        const Index rows = std::min(vectors.rows(), n - 1 - first);  // the last one foretells none
        if (rows > 0) {
          const Matrix logits = model.logits(vectors.topRows(rows));
          std::vector<double> nats(static_cast<std::size_t>(rows));
          model.threads().each(rows, [&](Index i) {
            const int next = tokens[static_cast<std::size_t>(first + i + 1)];
            nats[static_cast<std::size_t>(i)] =
                log_sum(logits.row(i)) - static_cast<double>(logits(i, next));
          });
          for (const double one : nats) score.nats += one;
          score.predicted += rows;
        }
        if (progress) progress(first + vectors.rows());
      },
      observer);
}

}  // namespace lm

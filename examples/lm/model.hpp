// SPDX-License-Identifier: Apache-2.0
//
// The decoder. For every layer, with x the vectors of the tokens [tokens, width]:
//   x += out attention(norm(x))        RMS norm, grouped queries, RoPE; the attention is heed's
//   x += down (silu(gate h) * up h)    h = norm(x)
// and at the end logits = head norm(x). Norms, products and SiLU are Eigen's, in float.

#pragma once

#include <functional>
#include <span>

#include "kv_cache.hpp"
#include "threads.hpp"
#include "weights.hpp"

namespace lm {

// Looks over a decoder's shoulder.
struct Observer {
  // Called before the attention of each layer; may ask for entropy or weights.
  std::function<void(Index layer, heed::Into& into)> before;
  double attention_seconds = 0;  // added up
};

class Model {
 public:
  Model(Weights weights, const Threads& threads)
      : weights_(std::move(weights)), threads_(&threads) {}

  const Config& config() const { return weights_.config; }
  Index layers() const { return static_cast<Index>(weights_.layers.size()); }
  Index weights() const { return weights_.count(); }
  KvCache new_cache(const CacheChoice& choice = {}) const {
    return {weights_.config, weights_.layers.size(), choice};
  }
  void run_on(const Threads& threads) { threads_ = &threads; }
  const Threads& threads() const { return *threads_; }

  // Reads tokens that follow those in the cache, and returns their last vectors, normed:
  // [tokens, width]. Throws Error for an unknown token or one beyond the model's context.
  // Memory: a few times [tokens, hidden], so long texts are read in pieces (see read).
  Matrix forward(std::span<const int> tokens, KvCache& cache, Observer* observer = nullptr) const;

  // The same in pieces of kPiece tokens, or in one where the cache needs it: visit(first token,
  // vectors of the piece).
  static constexpr Index kPiece = 256;
  void read(std::span<const int> tokens, KvCache& cache,
            const std::function<void(Index first, const Matrix& vectors)>& visit,
            Observer* observer = nullptr) const;

  // [rows, vocabulary]. Throws Error where weights have led to infinities.
  Matrix logits(const Matrix& vectors) const;

  // The logits after the last of at least one token: [1, vocabulary].
  Matrix next_logits(std::span<const int> tokens, KvCache& cache,
                     Observer* observer = nullptr) const;

 private:
  Matrix embed(std::span<const int> tokens) const;
  Matrix norm(const Matrix& x, const Vector& weight) const;
  Matrix gated(const Matrix& x, const Layer& layer) const;

  Weights weights_;
  const Threads* threads_;
};

}  // namespace lm

// SPDX-License-Identifier: Apache-2.0
//
// The decoder, layer by layer.

#include "model.hpp"

#include <cmath>
#include <string>

#include "clock.hpp"

namespace lm {

Matrix Model::embed(std::span<const int> tokens) const {
  Matrix x(static_cast<Index>(tokens.size()), config().width);
  for (Index i = 0; i < x.rows(); ++i) {
    const int id = tokens[static_cast<std::size_t>(i)];
    if (id < 0 || id >= config().vocabulary) {
      throw Error("token " + std::to_string(id) + " is not among the model's " +
                  std::to_string(config().vocabulary));
    }
    x.row(i) = weights_.embedding.row(id);
  }
  return x;
}

// weight * x / sqrt(mean(x^2) + epsilon)
Matrix Model::norm(const Matrix& x, const Vector& weight) const {
  const Eigen::VectorXf scale =
      (x.rowwise().squaredNorm().array() / static_cast<float>(x.cols()) + config().epsilon)
          .sqrt()
          .inverse();
  return (scale.asDiagonal() * x).array().rowwise() * weight.array();
}

Matrix Model::gated(const Matrix& x, const Layer& layer) const {
  Matrix result(x.rows(), layer.gate.rows());
  threads_->each_piece(layer.gate.rows(), kOutputs, [&](Index first, Index count) {
    Matrix gate(x.rows(), count), up(x.rows(), count);
    product_piece(x, layer.gate.middleRows(first, count), gate);
    product_piece(x, layer.up.middleRows(first, count), up);
    // silu(g) = g sigmoid(g)
    result.middleCols(first, count) = gate.array() / (1 + (-gate.array()).exp()) * up.array();
  });
  return result;
}

Matrix Model::forward(std::span<const int> tokens, KvCache& cache, Observer* observer) const {
  const Index total = cache.tokens() + static_cast<Index>(tokens.size());
  if (total > config().context) {
    throw Error("the model reads " + std::to_string(config().context) +
                " tokens at most; this is " + std::to_string(total));
  }
  Matrix x = embed(tokens);
  Matrix attended(x.rows(), config().heads * config().dim);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const Layer& layer = weights_.layers[i];
    const Matrix qkv = product(*threads_, norm(x, layer.attention_norm), layer.qkv);
    heed::Into into;
    into.out = heed::split_heads(attended, config().heads);
    if (observer && observer->before) observer->before(static_cast<Index>(i), into);
    const Clock clock;
    cache.attend(*threads_, i, qkv, into);
    if (observer) observer->attention_seconds += clock.seconds();
    x += product(*threads_, attended, layer.out);
    x += product(*threads_, gated(norm(x, layer.mlp_norm), layer), layer.down);
  }
  return norm(x, weights_.norm);
}

void Model::read(std::span<const int> tokens, KvCache& cache,
                 const std::function<void(Index first, const Matrix& vectors)>& visit,
                 Observer* observer) const {
  const Index n = static_cast<Index>(tokens.size());
  const Index piece = cache.one_piece() ? std::max<Index>(n, 1) : kPiece;
  for (Index first = 0; first < n; first += piece) {
    const Index count = std::min(piece, n - first);
    visit(first, forward(tokens.subspan(static_cast<std::size_t>(first),
                                        static_cast<std::size_t>(count)),
                         cache, observer));
  }
}

Matrix Model::logits(const Matrix& vectors) const {
  const Matrix& head = weights_.head.size() == 0 ? weights_.embedding : weights_.head;
  Matrix result = product(*threads_, vectors, head);
  if (!result.allFinite()) {
    throw Error("the model computes numbers that are not finite; its file may be damaged");
  }
  return result;
}

Matrix Model::next_logits(std::span<const int> tokens, KvCache& cache, Observer* observer) const {
  if (tokens.empty()) throw Error("there is no token to go on from");
  Matrix last;
  const auto keep = [&](Index, const Matrix& vectors) { last = vectors.bottomRows(1); };
  read(tokens, cache, keep, observer);
  return logits(last);
}

}  // namespace lm

// SPDX-License-Identifier: Apache-2.0
//
// A random decoder of a few thousand weights, and what it computes in plain loops and double:
//   x += out attention(norm(x));  x += down (silu(gate h) * up h), h = norm(x);  head norm(x)
// with neighbouring components rotated by position * theta^(-2n / rotated width).

#pragma once

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "weights.hpp"

namespace lm {

inline Weights tiny_weights(bool tied) {
  std::mt19937 random(tied ? 1 : 2);
  std::normal_distribution<float> normal;
  const auto matrix = [&](Index rows, Index columns) {
    Matrix m(rows, columns);
    for (Index i = 0; i < m.size(); ++i) {
      m.data()[i] = normal(random) / std::sqrt(static_cast<float>(columns));
    }
    return m;
  };
  const auto vector = [&](Index n) -> Vector { return matrix(1, n).array() + 1; };
  Weights weights;
  weights.config = {.width = 24, .hidden = 100, .heads = 6, .kv_heads = 2, .dim = 8,
                    .vocabulary = 11, .context = 32, .epsilon = 1e-5f,
                    .rope = {.theta = 50, .pairing = heed::Pairing::neighbours, .width = 6,
                             .scaling = 2}};
  const Config& c = weights.config;
  weights.embedding = matrix(c.vocabulary, c.width);
  if (!tied) weights.head = matrix(c.vocabulary, c.width);
  weights.norm = vector(c.width);
  for (int i = 0; i < 3; ++i) {
    weights.layers.push_back({.attention_norm = vector(c.width), .mlp_norm = vector(c.width),
                              .qkv = matrix((c.heads + 2 * c.kv_heads) * c.dim, c.width),
                              .out = matrix(c.width, c.heads * c.dim),
                              .gate = matrix(c.hidden, c.width), .up = matrix(c.hidden, c.width),
                              .down = matrix(c.width, c.hidden)});
  }
  return weights;
}

// Logits after each token, [tokens, vocabulary].
inline Eigen::MatrixXd plain_logits(const Weights& weights, std::span<const int> tokens) {
  const Config& c = weights.config;
  using Values = std::vector<double>;
  const auto times = [](const Matrix& w, const Values& x) {
    Values y(static_cast<std::size_t>(w.rows()), 0.0);
    for (Index i = 0; i < w.rows(); ++i) {
      for (Index j = 0; j < w.cols(); ++j) {
        y[std::size_t(i)] += double(w(i, j)) * x[std::size_t(j)];
      }
    }
    return y;
  };
  const auto norm = [&](const Values& x, const Vector& weight) {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double scale = 1 / std::sqrt(squares / double(x.size()) + double(c.epsilon));
    Values y = x;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] *= scale * double(weight(Index(i)));
    return y;
  };
  // The heads of q and k stand one behind the other: `count` heads from element `first`.
  const auto rotate = [&](Values& qkv, Index first, Index count, double position) {
    for (Index head = 0; head < count; ++head) {
      for (Index n = 0; n < c.rope.width / 2; ++n) {
        const double power = -2.0 * double(n) / double(c.rope.width);
        const double angle =
            position / double(c.rope.scaling) * std::pow(double(c.rope.theta), power);
        double& a = qkv[std::size_t(first + head * c.dim + 2 * n)];
        double& b = qkv[std::size_t(first + head * c.dim + 2 * n + 1)];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
    }
  };
  const auto add = [](Values& x, const Values& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  };

  std::vector<std::vector<Values>> memory(weights.layers.size());  // of qkv, per layer and token
  Eigen::MatrixXd result(Index(tokens.size()), c.vocabulary);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    Values x;
    for (Index i = 0; i < c.width; ++i) x.push_back(double(weights.embedding(tokens[t], i)));
    for (std::size_t l = 0; l < weights.layers.size(); ++l) {
      const Layer& layer = weights.layers[l];
      Values qkv = times(layer.qkv, norm(x, layer.attention_norm));
      rotate(qkv, 0, c.heads + c.kv_heads, double(t));
      memory[l].push_back(qkv);
      Values attended;
      for (Index head = 0; head < c.heads; ++head) {
        const Index kv = head / (c.heads / c.kv_heads);
        const std::size_t q = std::size_t(head * c.dim);
        const std::size_t k = std::size_t((c.heads + kv) * c.dim);
        const std::size_t v = std::size_t((c.heads + c.kv_heads + kv) * c.dim);
        Values weight;
        double sum = 0;
        for (const Values& then : memory[l]) {
          double logit = 0;
          for (std::size_t d = 0; d < std::size_t(c.dim); ++d) logit += qkv[q + d] * then[k + d];
          weight.push_back(std::exp(logit / std::sqrt(double(c.dim))));
          sum += weight.back();
        }
        for (std::size_t d = 0; d < std::size_t(c.dim); ++d) {
          double value = 0;
          for (std::size_t j = 0; j <= t; ++j) value += weight[j] / sum * memory[l][j][v + d];
          attended.push_back(value);
        }
      }
      add(x, times(layer.out, attended));
      const Values h = norm(x, layer.mlp_norm);
      Values gate = times(layer.gate, h);
      const Values up = times(layer.up, h);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      add(x, times(layer.down, gate));
    }
    const Values logits =
        times(weights.head.size() == 0 ? weights.embedding : weights.head, norm(x, weights.norm));
    for (Index i = 0; i < c.vocabulary; ++i) result(Index(t), i) = logits[std::size_t(i)];
  }
  return result;
}

}  // namespace lm

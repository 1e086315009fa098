// SPDX-License-Identifier: Apache-2.0
//
// The layers between the attentions, each with its adjoint: linear, layer norm, dropout, softmax
// with cross-entropy. x: [tokens, width]. Adjoints add to the gradients of weights and return that
// of the input.

#pragma once

#include <cstdint>
#include <vector>

#include "parameters.hpp"
#include "random.hpp"

namespace tasks {

// y = x W + b
struct Linear {
  const Slice* weight = nullptr;   // [in, out]
  const Slice* bias = nullptr;     // [1, out]

  void forward(const Vector& w, const Matrix& x, Matrix& y) const {
    y.resize(x.rows(), weight->cols);
    y.noalias() = x * weight->of(w);
    y.rowwise() += bias->of(w).row(0);
  }
  void backward(const Vector& w, const Matrix& x, const Matrix& dy, Matrix& dx,
                Vector& gradient) const {
    weight->of(gradient).noalias() += x.transpose() * dy;
    bias->of(gradient) += dy.colwise().sum();
    dx.resize(x.rows(), x.cols());
    dx.noalias() = dy * weight->of(w).transpose();
  }
};

// y = (x - mean) / sqrt(variance + eps) * gain + bias, over each row.
struct Norm {
  const Slice* gain = nullptr;
  const Slice* bias = nullptr;

  struct Kept {
    Matrix unit;             // before gain and bias
    Eigen::VectorXf inverse;   // 1 / sqrt(variance + eps)
  };

  void forward(const Vector& w, const Matrix& x, Matrix& y, Kept& kept) const {
    const Eigen::VectorXf mean = x.rowwise().mean();
    kept.unit = x.colwise() - mean;
    kept.inverse =
        (kept.unit.array().square().rowwise().mean() + 1e-5f).rsqrt().matrix();
    kept.unit.array().colwise() *= kept.inverse.array();
    y = (kept.unit.array().rowwise() * gain->of(w).row(0).array()).matrix();
    y.rowwise() += bias->of(w).row(0);
  }
  // dy becomes dx.
  void backward(const Vector& w, const Kept& kept, Matrix& dy, Vector& gradient) const {
    gain->of(gradient).array() += (dy.array() * kept.unit.array()).colwise().sum();
    bias->of(gradient) += dy.colwise().sum();
    dy.array().rowwise() *= gain->of(w).row(0).array();
    const Eigen::ArrayXf mean = dy.array().rowwise().mean();
    const Eigen::ArrayXf along = (dy.array() * kept.unit.array()).rowwise().mean();
    dy.array().colwise() -= mean;
    dy.array() -= kept.unit.array().colwise() * along;
    dy.array().colwise() *= kept.inverse.array();
  }
};

// Zeroes a share of x and scales up the rest; kept is the factor of each element.
inline void drop(Matrix& x, float share, Random& random, Matrix& kept) {
  kept.resize(x.rows(), x.cols());
  const auto limit = static_cast<std::uint32_t>(share * 0x1p32f);
  for (Index i = 0; i < x.size(); ++i) {
    const bool zero = static_cast<std::uint32_t>(random.next() >> 32) < limit;
    kept.data()[i] = zero ? 0.0f : 1 / (1 - share);
  }
  x.array() *= kept.array();
}

// Loss and mistakes of the positions that have a target.
struct Score {
  double loss = 0;          // sum of -ln p(target)
  Index targets = 0, wrong = 0;
  Index sequences = 0, wrong_sequences = 0;   // a sequence is wrong where any of its targets is

  Score& operator+=(const Score& o) {
    loss += o.loss;
    targets += o.targets;
    wrong += o.wrong;
    sequences += o.sequences;
    wrong_sequences += o.wrong_sequences;
    return *this;
  }
  double mean_loss() const { return targets == 0 ? 0 : loss / static_cast<double>(targets); }
};

// logits: [targets, vocabulary] become d sum of losses / d logits. wrong[i] says whether the
// largest logit stands elsewhere than at the target.
inline double cross_entropy(Matrix& logits, const std::vector<int>& targets,
                            std::vector<bool>& wrong) {
  double loss = 0;
  wrong.resize(targets.size());
  for (Index i = 0; i < logits.rows(); ++i) {
    auto row = logits.row(i).array();
    const int target = targets[static_cast<std::size_t>(i)];
    Index best = 0;
    const float largest = row.maxCoeff(&best), wanted = row(target);
    wrong[static_cast<std::size_t>(i)] = best != target;
    row = (row - largest).exp();
    const float sum = row.sum();
    loss += static_cast<double>(std::log(sum) - (wanted - largest));
    row /= sum;
    row(target) -= 1;
  }
  return loss;
}

}  // namespace tasks

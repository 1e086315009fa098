// SPDX-License-Identifier: Apache-2.0
//
// The yardstick: causal attention as whole-matrix Eigen expressions, one head after the other, as
// one writes it without a library. Every matrix of logits exists in full, hidden half included.

#pragma once

#include "shapes.hpp"

namespace heed_bench {

using MatrixMap = Eigen::Map<Matrix>;

// Adds CoPE's biases to the logits x: x + q.e at the running gate sum, interpolated.
inline void add_cope(Matrix& x, const MatrixMap& q, const Matrix& table) {
  const Index n = x.rows();
  Matrix position = 1 / (1 + (-x.array()).exp());
  position.triangularView<Eigen::StrictlyUpper>().setZero();
  for (Index i = 0; i < n; ++i) {
    for (Index j = i; j-- > 0;) position(i, j) += position(i, j + 1);
  }
  position = position.cwiseMin(float(table.rows() - 1));
  const Matrix cell = position.array().floor();
  position -= cell;
  const Matrix z = q * table.transpose();
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j <= i; ++j) {
      const Index below = Index(cell(i, j)), above = std::min(below + 1, table.rows() - 1);
      x(i, j) += z(i, below) + position(i, j) * (z(i, above) - z(i, below));
    }
  }
}

// Without a table: plain.
inline void attend_unfused(Tensors& t, const Problem& p, const Matrix* table) {
  for (Index h = 0; h < p.heads; ++h) {
    const Index size = p.len * p.dim, kv_head = h / (p.heads / p.kv_heads);
    const MatrixMap q(t.q->data() + h * size, p.len, p.dim);
    const MatrixMap k(t.k->data() + kv_head * size, p.len, p.dim);
    const MatrixMap v(t.v->data() + kv_head * size, p.len, p.dim);
    MatrixMap out(t.out->data() + h * size, p.len, p.dim);

    Matrix x = (q * k.transpose()) / std::sqrt(float(p.dim));
    if (table != nullptr) add_cope(x, q, *table);
    x.triangularView<Eigen::StrictlyUpper>().setConstant(-INFINITY);
    const Eigen::VectorXf top = x.rowwise().maxCoeff();
    x = (x.colwise() - top).array().exp();
    x.triangularView<Eigen::StrictlyUpper>().setZero();   // Eigen 3.4's exp(-inf) is not 0
    const Eigen::VectorXf sum = x.rowwise().sum();
    out.noalias() = x * v;
    out.array().colwise() /= sum.array();
  }
}

}  // namespace heed_bench

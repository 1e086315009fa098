// SPDX-License-Identifier: Apache-2.0
//
// The threads of the program: one pool that runs heed's jobs and the dense products, so that they
// never compete. Products are cut by shape only, so a result does not depend on how many threads
// there are.

#pragma once

#define EIGEN_USE_THREADS
#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <algorithm>

#include "dequantize.hpp"

namespace lm {

class Threads {
 public:
  // The caller works too, so the pool holds one thread less.
  explicit Threads(int count)
      : count_(count), pool_(std::max(1, count - 1)), device_(&pool_, count) {}

  int count() const { return count_; }
  const Eigen::ThreadPoolDevice& device() const { return device_; }
  // f(0) ... f(n - 1), in any order; returns when all are done.
  template <class F>
  void each(Index n, F&& f) const {
    heed::run(device_, n, f);
  }
  // f(first, count) for pieces of `size` (the last one may be shorter).
  template <class F>
  void each_piece(Index n, Index size, F&& f) const {
    each((n + size - 1) / size,
         [&](Index i) { f(i * size, std::min(size, n - i * size)); });
  }

 private:
  int count_;
  Eigen::ThreadPool pool_;
  Eigen::ThreadPoolDevice device_;
};

// Outputs per job: small enough for two cores to share a layer, large enough for Eigen's kernels.
inline constexpr Index kOutputs = 96;

// to = x w', [rows, outputs]: x [rows, inputs], w [outputs, inputs]. One row is a matrix-vector
// product, limited by the memory's speed; many are limited by arithmetic.
template <class X, class W, class To>
void product_piece(const X& x, const W& w, To&& to) {
  if (x.rows() == 1) {
    to.row(0).transpose().noalias() = w * x.row(0).transpose();
  } else {
    to.noalias() = x * w.transpose();
  }
}
inline Matrix product(const Threads& threads, const Matrix& x, const Matrix& w) {
  Matrix result(x.rows(), w.rows());
  threads.each_piece(w.rows(), kOutputs, [&](Index first, Index count) {
    product_piece(x, w.middleRows(first, count), result.middleCols(first, count));
  });
  return result;
}

}  // namespace lm

// SPDX-License-Identifier: Apache-2.0
//
// The shapes that are measured, their tensors, and their names:
//   forward/policy:cope/heads:8/kv_heads:8/len:4096/dim:64
//
// Queries and keys are normal, so that logits have mean 0 and deviation 1; with a gate size, the
// first component of both moves the logits so that the mean gate sigmoid(logit) is that size. A
// constant changes no softmax, so plain attention does the same work on the same tensors.

#pragma once

#define EIGEN_USE_THREADS
#include <unsupported/Eigen/CXX11/Tensor>

#include "calibration.hpp"

namespace heed_bench {

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// 0.03, not 0.030000.
inline std::string short_text(double x) {
  const std::string text = std::to_string(x);
  return text.substr(0, text.find_last_not_of('0') + 1);
}

struct Problem {
  Index heads = 8, kv_heads = 8, len = 1024, dim = 64;
  int align = 16;   // of the tensors, in bytes

  std::string name() const {
    return "heads:" + std::to_string(heads) + "/kv_heads:" + std::to_string(kv_heads) +
           "/len:" + std::to_string(len) + "/dim:" + std::to_string(dim) +
           (align == 64 ? "/align:64" : "");
  }
  // Useful flops of the causal product and weighted sum.
  double flops() const {
    return 4.0 * double(heads) * double(dim) * double(len) * double(len + 1) / 2;
  }
};

// Normal numbers, the same on every machine: sums of twelve uniform ones.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  float operator()() {
    float sum = -6;
    for (int i = 0; i < 3; ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      std::uint64_t bits = state_ ^ state_ >> 29;
      for (int j = 0; j < 4; ++j, bits >>= 16) sum += float(bits & 0xffff) / 65536.0f;
    }
    return sum;
  }
  void fill(float* to, Index n, float deviation = 1) {
    for (Index i = 0; i < n; ++i) to[i] = deviation * (*this)();
  }

 private:
  std::uint64_t state_;
};

// The mean logit whose gates have the given mean, for logits of deviation 1.
inline double logit_of_gate(double gate) {
  const auto mean_gate = [](double logit) {
    double sum = 0, weight = 0;
    for (double z = -5; z <= 5; z += 0.05) {
      const double w = std::exp(-z * z / 2);
      sum += w / (1 + std::exp(-logit - z));
      weight += w;
    }
    return sum / weight;
  };
  double low = -40, high = 40;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (mean_gate(middle) < gate ? low : high) = middle;
  }
  return low;
}

// Row-major memory that starts at a multiple of 64 bytes, or 16 bytes after one, which is where an
// Eigen tensor of any size lies in a plain build.
class Aligned {
 public:
  Aligned(Index heads, Index len, Index dim, int align)
      : memory_(heads * len * dim + 16),
        map_(memory_.data() + (align == 64 ? 0 : 4), 1, heads, len, dim) {
    map_.setZero();
  }
  Eigen::TensorMap<Tensor>& operator*() { return map_; }
  Eigen::TensorMap<Tensor>* operator->() { return &map_; }

 private:
  heed::Buffer<float> memory_;
  Eigen::TensorMap<Tensor> map_;
};

struct Tensors {
  Aligned q, k, v, out;

  explicit Tensors(const Problem& p, double gate = 0.5)
      : q(p.heads, p.len, p.dim, p.align),
        k(p.kv_heads, p.len, p.dim, p.align),
        v(p.kv_heads, p.len, p.dim, p.align),
        out(p.heads, p.len, p.dim, p.align) {
    Normal(1).fill(q->data(), q->size());
    Normal(2).fill(k->data(), k->size());
    Normal(3).fill(v->data(), v->size());
    if (gate == 0.5) return;
    const double product = logit_of_gate(gate) * std::sqrt(double(p.dim));
    const float root = float(std::sqrt(std::abs(product)));
    for (Index i = 0; i < q->size(); i += p.dim) q->data()[i] = root;
    for (Index i = 0; i < k->size(); i += p.dim) k->data()[i] = product < 0 ? -root : root;
  }
};

// Vectors of a position table, [rows, dim].
inline Matrix position_table(Index rows, Index dim) {
  Matrix table(rows, dim);
  Normal(4).fill(table.data(), table.size(), 0.1f);
  return table;
}

// How many times something of so many flops is measured against something else: a second or two,
// and never fewer than seven times.
inline Index pairs_for(double flops) {
  return std::clamp<Index>(Index(60e9 / flops), 7, 101);
}

inline constexpr Index kPositions = 64;   // of CoPE's and the relative tables

}  // namespace heed_bench

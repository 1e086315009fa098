// SPDX-License-Identifier: Apache-2.0
//
// All weights of a model in one vector, cut into named matrices, and AdamW over it (Loshchilov and
// Hutter, arXiv 1711.05101) with linear warm-up and then a cosine or a constant rate. Gradients are
// vectors of the same layout, so adding up, clipping, saving and freezing are one line each.

#pragma once

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

namespace tasks {

using Index = Eigen::Index;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXf;
using Row = Eigen::RowVectorXf;

// One matrix of the model. A vector is a matrix of one row.
struct Slice {
  std::string name;
  Index offset = 0, rows = 0, cols = 0;
  bool decayed = false;   // by weight decay
  bool trained = true;

  Index size() const { return rows * cols; }
  Eigen::Map<const Matrix> of(const Vector& all) const {
    return {all.data() + offset, rows, cols};
  }
  Eigen::Map<Matrix> of(Vector& all) const { return {all.data() + offset, rows, cols}; }
};

class Layout {
 public:
  const Slice* add(std::string name, Index rows, Index cols, bool decayed = false,
                   bool trained = true) {
    slices_.push_back(std::make_unique<Slice>(
        Slice{std::move(name), size_, rows, cols, decayed, trained}));
    size_ += rows * cols;
    return slices_.back().get();
  }
  Index size() const { return size_; }
  const std::vector<std::unique_ptr<Slice>>& slices() const { return slices_; }

 private:
  std::vector<std::unique_ptr<Slice>> slices_;   // by pointer: a Layout may grow and be moved
  Index size_ = 0;
};

struct Schedule {
  double peak = 1e-3;
  Index warm_up = 50, steps = 1000;
  bool cosine = true;    // down to a tenth of the peak; otherwise constant after the warm-up
  double decay = 0.1;    // of weights, per step times the rate
  double beta2 = 0.98;
  double clip = 1;       // largest norm of a gradient; 0: none

  double rate(Index step) const {
    if (step < warm_up) {
      return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up);
    }
    if (!cosine) return peak;
    const double done = static_cast<double>(step - warm_up) /
                        static_cast<double>(std::max<Index>(1, steps - warm_up));
    return peak * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0))));
  }
};

class AdamW {
 public:
  Vector first, second;   // running means of the gradient and of its square

  explicit AdamW(const Layout& layout)
      : first(Vector::Zero(layout.size())), second(Vector::Zero(layout.size())) {}

  // Step number `step`, from 0. gradient is scaled in place where it is clipped.
  void step(const Schedule& s, const Layout& layout, Index step, Vector& gradient,
            Vector& weights) {
    const double norm = std::sqrt(gradient.cast<double>().squaredNorm());
    if (s.clip > 0 && norm > s.clip) gradient *= static_cast<float>(s.clip / norm);
    const float beta1 = 0.9f, beta2 = static_cast<float>(s.beta2);
    const auto n = static_cast<double>(step + 1);
    const double rate = s.rate(step), correction1 = 1 - std::pow(0.9, n);
    const auto correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, n)));
    for (const auto& slice : layout.slices()) {
      if (!slice->trained) continue;
      const auto at = [&](Vector& v) { return v.segment(slice->offset, slice->size()).array(); };
      auto m = at(first), v = at(second), w = at(weights), g = at(gradient);
      m += (1 - beta1) * (g - m);
      v += (1 - beta2) * (g.square() - v);
      if (slice->decayed) w *= static_cast<float>(1 - rate * s.decay);
      w -= static_cast<float>(rate / correction1) * m / (v.sqrt() * correction2 + 1e-8f);
    }
  }
};

}  // namespace tasks

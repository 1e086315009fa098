// SPDX-License-Identifier: Apache-2.0
//
// How sharp the softmax is: the factor on q.k, in place of 1/sqrt(d) or on top of it.
//
//   Scale{s}           logit = s q.k
//   HeadScale{c}       logit = c[head] q.k / sqrt(d); c > 1 sharpens. Extends models without
//                      position encoding (Wang et al., arXiv 2404.12224).
//   LogScale{...}      logit = (1 + alpha ln(floor((pos + offset) / floor) + 1)) q.k / sqrt(d)
//
// Standing first among the scores, the factors are folded into the queries and cost nothing.

#pragma once

#include <algorithm>
#include <cmath>

#include "concepts.hpp"

namespace heed::inline HEED_ABI {

// Replaces 1/sqrt(d). Finite and > 0.
struct Scale {
  float scale;

  float base_scale() const { return scale; }
  NumbersGradient zero(const Shape&) const { return NumbersGradient(1); }
  void base_scale_adjoint(double d, NumbersGradient& gradient) const { gradient[0] += d; }
  void check(const Shape& shape) const {
    if (std::isfinite(scale) && scale > 0) return;
    contract::refuse(shape.function, "Scale is " + contract::text(double{scale}),
                     "a finite number above 0");
  }
};

// One factor per query head, not per kv head; each finite and > 0.
struct HeadScale {
  List<float> scales;         // [heads], multiples of 1/sqrt(d)
  bool temperatures = false;  // the numbers are temperatures t, the factors 1/t

  static constexpr HeadScale from_temperatures(List<float> t) { return {t, true}; }

  float factor(Query query) const {
    const float number = scales[query.head];
    return temperatures ? 1 / number : number;
  }
  NumbersGradient zero(const Shape& shape) const { return NumbersGradient(shape.heads); }
  void factor_adjoint(Query query, double d, NumbersGradient& gradient) const {
    const double number = double{scales[query.head]};
    gradient[query.head] += temperatures ? -d / (number * number) : d;
  }
  void check(const Shape& shape) const {
    using contract::text;
    if (scales.size != shape.heads) {
      contract::refuse(shape.function, "HeadScale has " + text(scales.size) + " numbers",
                       "one per query head, " + text(shape.heads));
    }
    for (Index head = 0; head < shape.heads; ++head) {
      const float f = factor({0, head, 0, 0});
      if (std::isfinite(f) && f > 0) continue;
      contract::refuse(shape.function,
                       "HeadScale has " + text(double{scales[head]}) + " for head " + text(head),
                       "finite numbers above 0");
    }
  }
};

// Grows with the query's position, in steps: llama.cpp and Llama 4 on layers without positions.
// alpha finite and >= 0, floor >= 1. Positions before -offset count as -offset.
struct LogScale {
  float alpha = 0.1f;
  Index floor = 8192;   // length of a step
  Index offset = 1;

  float factor(Query query) const {
    const Index steps = std::max<Index>(query.position + offset, 0) / floor;
    return static_cast<float>(1 + double{alpha} * std::log1p(static_cast<double>(steps)));
  }
  void check(const Shape& shape) const {
    if (!std::isfinite(alpha) || alpha < 0) {
      contract::refuse(shape.function, "LogScale.alpha is " + contract::text(double{alpha}),
                       "a finite number of at least 0");
    }
    if (floor < 1) {
      contract::refuse(shape.function, "LogScale.floor is " + contract::text(floor), "at least 1");
    }
  }
};

}  // namespace heed::inline HEED_ABI

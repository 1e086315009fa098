// SPDX-License-Identifier: Apache-2.0
//
// A learned logit per head that takes part in the softmax and has no value (gpt-oss; "softmax off
// by one" is a logit of 0):
//
//   weight(i, j) = e^logit(i, j) / (e^sink[head] + sum_j e^logit(i, j))
//
// The sink is not scaled, and it counts in lse and entropy.

#pragma once

#include <cmath>

#include "concepts.hpp"

namespace heed::inline HEED_ABI {

struct SinkLogits {
  List<float> logits;   // [heads], query heads; finite

  float prior(Query query) const { return logits[query.head]; }
  NumbersGradient zero(const Shape& shape) const { return NumbersGradient(shape.heads); }
  void prior_adjoint(Query query, double d, NumbersGradient& gradient) const {
    gradient[query.head] += d;
  }
  void check(const Shape& shape) const {
    using contract::text;
    if (logits.size != shape.heads) {
      contract::refuse(shape.function, "SinkLogits has " + text(logits.size) + " numbers",
                       "one per query head, " + text(shape.heads));
    }
    for (Index head = 0; head < shape.heads; ++head) {
      if (std::isfinite(logits[head])) continue;
      contract::refuse(shape.function,
                       "SinkLogits has " + text(double{logits[head]}) + " for head " + text(head),
                       "finite logits");
    }
  }
};

}  // namespace heed::inline HEED_ABI

// SPDX-License-Identifier: Apache-2.0
//
// Logits kept within a bound (Gemma 2, arXiv 2408.00118).
//
//   logit = cap tanh(logit / cap)
//
// Hidden pairs stay hidden: the kernel hides them again after the scores.

#pragma once

#include <cmath>

#include "concepts.hpp"

namespace heed::inline HEED_ABI {

struct SoftCap {
  float cap;   // finite and > 0

  void check(const Shape& shape) const {
    if (std::isfinite(cap) && cap > 0) return;
    contract::refuse(shape.function, "SoftCap is " + contract::text(double{cap}),
                     "a finite number above 0");
  }
  void forward(const Tile& tile) const {
    simd::forward().soft_cap(tile.logits.data, tile.keys.count, cap, tile.reach);
  }
  void backward(const Tile& tile, Adjoint& adjoint) const {   // 1 - tanh^2(x / cap)
    simd::backward().soft_cap_adjoint(adjoint.logits.data, tile.logits.data, tile.keys.count, cap);
  }
};

}  // namespace heed::inline HEED_ABI

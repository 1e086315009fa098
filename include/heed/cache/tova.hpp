// SPDX-License-Identifier: Apache-2.0
//
// TOVA, token omission via attention (Oren et al., arXiv 2401.06104): the key that the current
// query attends least goes. Weights are averaged over all query heads after the softmax and one
// set is kept for the layer; under Scope::head each kv head keeps its own, by the mean over its
// query heads. Nothing is remembered from step to step, and the current token may go itself.

#pragma once

#include "eviction.hpp"

namespace heed::inline HEED_ABI {

struct Tova {
  static constexpr Scope scope = Scope::layer;
  static constexpr Watches watches = Watches::last;
  static constexpr const char* name = "tova";

  // The sum over heads orders keys as the mean does.
  void observe(const float* weights, const Slots&) { weights_ = weights; }
  double worth(const Slots&, Index rank) const { return double{weights_[rank]}; }

 private:
  const float* weights_ = nullptr;   // [rank], only between observe and the eviction it decides
};

}  // namespace heed::inline HEED_ABI

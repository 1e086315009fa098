// SPDX-License-Identifier: Apache-2.0
//
// Window and Window+i: the newest keys stay, and the first `sinks` tokens of the sequence
// (StreamingLLM, Xiao et al., arXiv 2309.17453). With budget n a query sees what the mask
// causal & (Window{n - sinks + 1} | Sinks{sinks}) shows: attention comes before eviction.

#pragma once

#include "eviction.hpp"

namespace heed::inline HEED_ABI {

struct Oldest {
  static constexpr Scope scope = Scope::layer;
  static constexpr const char* name = "oldest";

  Index sinks = 0;   // positions [0, sinks) never go

  double worth(const Slots&, Index rank) const { return static_cast<double>(rank); }
};

}  // namespace heed::inline HEED_ABI

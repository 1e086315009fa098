// SPDX-License-Identifier: Apache-2.0
//
// How a cache is set up, and what it tells about itself. Names are those of the field: a budget is
// the number of tokens that a bank (the heads that share slots) holds between calls.

#pragma once

#include <cmath>

#include "eviction.hpp"

namespace heed {
inline namespace HEED_DATA_ABI {

// original: keys are encoded at the position their token had, once and for all. in_cache: keys are
// stored raw and encoded at every step at their rank among the kept ones (StreamingLLM); masks and
// biases read original positions in both.
enum class KeyPositions { original, in_cache };

// What to look at: of one bank.
struct CacheStatistics {
  Index seen = 0, held = 0, budget = 0;
  double recent_share = 0;     // of the held tokens, those among the last `budget` seen
  bool first_held = false;     // is the first token still there
  Index evicted = 0;
  double mean_survival = 0;    // tokens seen from an evicted token's coming to its going, mean
};

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {

struct CacheOptions {
  Index batch = 1;
  Index heads = 0;               // query heads
  Index kv_heads = 0;            // 0: heads
  Index dim = 0;
  Index v_dim = 0;               // 0: dim
  Index budget = 0;              // tokens per bank
  double budget_share = 0;       // instead: this share of each entry's first prompt (budget_of)
  std::vector<Index> budgets{};  // instead, under Scope::head: per kv head
  Scope scope = Scope::policy;
  Index sinks = 0;               // positions [0, sinks) are never evicted
  bool protect_current = false;  // nor is the token of the step itself
  KeyPositions key_positions = KeyPositions::original;
  bool gate_keys = false;        // a third stream, for Cope{...}.gate_keys(...)
  bool history = false;          // remember for every position how long it survived; grows
};

// A share as a count: rounded down, at least 1. 0.5 of 0.5 of 8 is 2.
inline Index budget_of(double share, Index tokens) {
  return std::max<Index>(1, static_cast<Index>(std::floor(share * static_cast<double>(tokens))));
}

}  // namespace HEED_ABI
}  // namespace heed

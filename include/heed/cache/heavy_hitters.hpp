// SPDX-License-Identifier: Apache-2.0
//
// H2O, heavy hitters (Zhang et al., arXiv 2306.14048): the newest `recent` tokens stay, the
// current one among them, and of the older ones those with the largest weight summed over all
// queries since they came. A token's own first query counts. One set per kv head, by the sum over
// its query heads; Scope::layer is the named alternative.
//
// Old tokens collect more terms. `by_age` divides the sum by the number of positions that could
// have seen the token.

#pragma once

#include "eviction.hpp"

namespace heed::inline HEED_ABI {

struct HeavyHitters {
  static constexpr Scope scope = Scope::head;
  static constexpr Watches watches = Watches::every;
  static constexpr Index numbers = 1;
  static constexpr const char* name = "heavy_hitters";

  Index recent = -1;       // -1: half of the budget
  bool by_age = false;
  std::vector<double> score{};   // [slot], sums of weights

  Index newest(Index budget) const { return recent < 0 ? budget / 2 : recent; }
  void reset(Index slots) { score.assign(static_cast<std::size_t>(slots), 0.0); }
  void forget(Index slot) { score[static_cast<std::size_t>(slot)] = 0; }
  double* memory(Index slot) { return &score[static_cast<std::size_t>(slot)]; }

  // Weights, or for a whole prompt their sums, rounded to 2^-36, so that sums below 2^17 are exact
  // and the order of adding never shows.
  template <class T>
  void observe(const T* weights, const Slots& slots) {
    for (Index rank = 0; rank < slots.size(); ++rank) {
      score[static_cast<std::size_t>(slots.slot(rank))] += on_grid(weights[rank]);
    }
  }
  static double on_grid(float weight) {
    constexpr double kGrid = 0x1.8p16;
    return (double{weight} + kGrid) - kGrid;
  }
  static double on_grid(double sum) { return sum; }
  double worth(const Slots& slots, Index rank) const {
    const double sum = score[static_cast<std::size_t>(slots.slot(rank))];
    if (!by_age) return sum;
    return sum / static_cast<double>(slots.position(slots.size() - 1) - slots.position(rank) + 1);
  }
};

}  // namespace heed::inline HEED_ABI

// SPDX-License-Identifier: Apache-2.0
//
// One's own formula for a logit, and its derivative:
//
//   logit = f(logit)                 pointwise([](float x) { ... }, [](float x) { ... })
//   logit = f(logit, Query, Key)
//
// f sees hidden pairs too (as any number); what it gives for them is hidden again. It is called
// from several threads, on a copy per tile, and compiled with the including file's flags.

#pragma once

#include "concepts.hpp"

namespace heed::inline HEED_ABI {

template <class F, class Df>
struct Pointwise {
  F f;
  Df df;   // d f(x) / dx at the logit x that f received; called as f is

  void forward(const Tile& tile) const {
    each(f, tile, [](float& x, float value) { x = value; }, tile.logits);
  }
  void backward(const Tile& tile, Adjoint& adjoint) const {
    each(df, tile, [](float& d, float slope) { d *= slope; }, adjoint.logits);
  }

 private:
  // put(target logit, g(logit [, query, key])) for every pair of the tile.
  template <class G, class Put>
  static void each(const G& g, const Tile& tile, const Put& put, Logits& target) {
    const G call = g;   // its own copy: stores to the tile cannot change it
    for (Index i = 0; i < tile.keys.count; ++i) {
      const float* const from = tile.logits.data + i * kRows;
      float* const to = target.data + i * kRows;
      if constexpr (std::is_invocable_r_v<float, const G&, float>) {
        for (Index lane = 0; lane < kRows; ++lane) put(to[lane], static_cast<float>(call(from[lane])));
      } else {
        static_assert(std::is_invocable_r_v<float, const G&, float, Query, Key>,
                      "heed: pointwise takes f(float logit) or f(float logit, heed::Query, "
                      "heed::Key) that returns a float and can be called on a const object");
        const Key key = tile.keys.at(i);
        for (Index lane = 0; lane < tile.rows.count; ++lane) {
          put(to[lane], static_cast<float>(call(from[lane], tile.rows.query(lane), key)));
        }
      }
    }
  }
};
template <class F, class Df>
Pointwise(F, Df) -> Pointwise<F, Df>;

template <class F, class Df>
constexpr Pointwise<F, Df> pointwise(F f, Df df) {
  return {std::move(f), std::move(df)};
}

}  // namespace heed::inline HEED_ABI

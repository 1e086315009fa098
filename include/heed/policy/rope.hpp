// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions (Su et al., arXiv 2104.09864): pairs of a query's and a key's components are
// rotated by their position, so that q.k depends on the distance.
//
//   angle(position, n) = position / scaling * theta^(-2n / width),    n = 0 ... width/2 - 1
//   halves        pair n is (n, n + width/2)    Llama, GPT-NeoX, Hugging Face
//   neighbours    pair n is (2n, 2n + 1)        GPT-J, the paper
//
// The two pairings are different models that fail silently when mixed up, so there is no default.
// Cosines and sines are those of double angles, rounded once: within 1e-7 up to position 2^24.

#pragma once

#include <cmath>

#include "../core/buffer.hpp"
#include "concepts.hpp"

namespace heed::inline HEED_ABI {

class Pairing {
 public:
  static const Pairing halves, neighbours;

  // Nobody may call it. A type without it would be refused too, but not in these words.
  __attribute__((unavailable("heed: Rope has no default pairing; name it, .pairing = "
                             "heed::Pairing::halves (Llama, GPT-NeoX) or "
                             "heed::Pairing::neighbours (GPT-J)"))) Pairing();
  constexpr bool operator==(const Pairing&) const = default;

 private:
  enum class Kind { halves, neighbours };
  explicit constexpr Pairing(Kind kind) : kind_(kind) {}
  Kind kind_;
};
inline constexpr Pairing Pairing::halves{Kind::halves};
inline constexpr Pairing Pairing::neighbours{Kind::neighbours};

struct Rope {
  float theta = 1e4f;   // base of the frequencies
  Pairing pairing;
  Index width = 0;      // the first `width` components are rotated; even; 0: all
  float scaling = 1;    // positions are divided by it (linear interpolation, arXiv 2306.15595)

  // A row per position, a number per pair.
  struct Table {
    Buffer<float> cosine, sine;
    Index pairs = 0;
  };

  void check(const Shape& shape) const {
    using contract::text;
    const Index rotated = width == 0 ? shape.dim : width;
    if (rotated < 0 || rotated > shape.dim || rotated % 2 != 0) {
      contract::refuse(shape.function, "Rope rotates " + text(rotated) + " components",
                       "an even number up to q's dim " + text(shape.dim));
    }
    for (const auto& [name, value] : {std::pair{"theta", theta}, std::pair{"scaling", scaling}}) {
      if (std::isfinite(value) && value > 0) continue;
      contract::refuse(shape.function, std::string("Rope.") + name + " is " + text(double{value}),
                       "a finite number above 0");
    }
  }
  Table begin(List<Index> positions, Index dim) const {
    Table table;
    table.pairs = (width == 0 ? dim : width) / 2;
    table.cosine = Buffer<float>(positions.size * table.pairs);
    table.sine = Buffer<float>(positions.size * table.pairs);
    for (Index pair = 0; pair < table.pairs; ++pair) fill(table, positions, pair);
    return table;
  }
  void encode(Vector x, Index i, const Table& table) const { rotate(x, i, table, false); }
  void encode_adjoint(Vector x, Index i, const Table& table) const { rotate(x, i, table, true); }

 private:
  static constexpr Index kFresh = 64;

  // Neighbouring positions turn by a constant step, 63 rows at most from a fresh sine: at two
  // roundings of a double per row nothing of it reaches the float.
  void fill(Table& table, List<Index> positions, Index pair) const {
    const double share = static_cast<double>(pair) / static_cast<double>(table.pairs);
    const double frequency = std::pow(double{theta}, -share) / double{scaling};
    const double step_cosine = std::cos(frequency), step_sine = std::sin(frequency);
    double cosine = 1, sine = 0;
    for (Index i = 0; i < positions.size; ++i) {
      if (i % kFresh == 0 || positions[i] != positions[i - 1] + 1) {
        const double angle = static_cast<double>(positions[i]) * frequency;
        cosine = std::cos(angle), sine = std::sin(angle);
      } else {
        const double turned = cosine * step_cosine - sine * step_sine;
        sine = sine * step_cosine + cosine * step_sine;
        cosine = turned;
      }
      table.cosine[i * table.pairs + pair] = static_cast<float>(cosine);
      table.sine[i * table.pairs + pair] = static_cast<float>(sine);
    }
  }
  void rotate(Vector x, Index i, const Table& table, bool adjoint) const {
    const Index row = i * table.pairs;
    simd::forward().rotate(x.data(), 2 * table.pairs, table.cosine.data() + row,
                           table.sine.data() + row, pairing == Pairing::halves, adjoint);
  }
};

}  // namespace heed::inline HEED_ABI

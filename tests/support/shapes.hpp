// SPDX-License-Identifier: Apache-2.0
//
// What the tests feed: a generator of our own (the same numbers on every machine), extents that
// sit at the edges (0, 1, lanes and tiles +- 1), and fillings designed to reach what random
// numbers never do.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "oracle.hpp"

namespace support {

using oracle::Index;

// splitmix64
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // In [low, high].
  Index integer(Index low, Index high) {
    return low + static_cast<Index>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double p) { return uniform() < p; }
  double normal() {
    const double r = std::sqrt(-2 * std::log(1 - uniform()));
    return r * std::cos(6.283185307179586 * uniform());
  }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[integer(0, static_cast<Index>(from.size()) - 1)];
  }

 private:
  std::uint64_t state_;
};

// HEED_SEED, or the default that every run uses; printed once so that a failure can be repeated.
inline std::uint64_t run_seed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("HEED_SEED");
    const std::uint64_t s = text ? std::strtoull(text, nullptr, 10) : 20240528u;
    std::printf("HEED_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return seed;
}

// HEED_RELEASE=1 asks for the figures that take hours.
inline bool release_run() {
  const char* text = std::getenv("HEED_RELEASE");
  return text != nullptr && text[0] == '1';
}

struct Extents {
  Index batch = 1, heads = 1, kv_heads = 1, q_len = 1, kv_len = 1, dim = 1, v_dim = 1;
};

enum class Filling { normal, exponent_edge, tiny, denormal, huge, one_hot, equal, alternating };
inline constexpr Filling kFillings[] = {Filling::normal,   Filling::exponent_edge, Filling::tiny,
                                        Filling::denormal, Filling::huge,          Filling::one_hot,
                                        Filling::equal,    Filling::alternating};
inline const char* name(Filling f) {
  constexpr const char* kNames[] = {"normal", "exponent_edge", "tiny",  "denormal",
                                    "huge",   "one_hot",       "equal", "alternating"};
  return kNames[static_cast<int>(f)];
}

struct Data {
  std::vector<float> q, k, v;
};

// q [batch, heads, q_len, dim], k [batch, kv_heads, kv_len, dim], v [batch, kv_heads, kv_len,
// v_dim].
inline Data fill(const Extents& e, Filling filling, std::uint64_t seed) {
  Random random(seed);
  const auto size = [](Index n) { return static_cast<std::size_t>(n); };
  Data data;
  data.q.resize(size(e.batch * e.heads * e.q_len * e.dim));
  data.k.resize(size(e.batch * e.kv_heads * e.kv_len * e.dim));
  data.v.resize(size(e.batch * e.kv_heads * e.kv_len * e.v_dim));
  for (float& x : data.v) x = static_cast<float>(random.normal());
  const double root = std::sqrt(static_cast<double>(e.dim > 0 ? e.dim : 1));
  const auto each = [&](std::vector<float>& x, auto f) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(f(static_cast<Index>(i) / (e.dim > 0 ? e.dim : 1),
                                  static_cast<Index>(i) % (e.dim > 0 ? e.dim : 1)));
    }
  };
  switch (filling) {
    case Filling::normal:
      each(data.q, [&](Index, Index) { return random.normal(); });
      each(data.k, [&](Index, Index) { return random.normal(); });
      break;
    case Filling::exponent_edge:   // logits near +88 and -88, where e^x overflows and vanishes
      each(data.q, [&](Index, Index) { return 1 + 0.01 * random.normal(); });
      each(data.k, [&](Index row, Index) {
        return (row % 3 == 0 ? 88 : -88) / root + 0.05 * random.normal();
      });
      break;
    case Filling::tiny:
      each(data.q, [&](Index, Index) { return 1e-18 * random.normal(); });
      each(data.k, [&](Index, Index) { return 1e-18 * random.normal(); });
      break;
    case Filling::denormal:
      each(data.q, [&](Index, Index) { return random.normal(); });
      each(data.k, [&](Index, Index) { return 1e-41 * random.normal(); });
      for (float& x : data.v) x *= 1e-41f;
      break;
    case Filling::huge:            // logits near 1e30: one key takes all
      each(data.q, [&](Index, Index) { return 1e15 * random.normal(); });
      each(data.k, [&](Index, Index) { return 1e15 * random.normal(); });
      break;
    case Filling::one_hot:
      each(data.q, [&](Index row, Index d) { return d == row % e.dim ? 3.0 : 0.0; });
      each(data.k, [&](Index row, Index d) { return d == (row * 7) % e.dim ? 2.0 : 0.0; });
      break;
    case Filling::equal:
      each(data.q, [&](Index, Index) { return 0.5; });
      each(data.k, [&](Index, Index) { return 0.25; });
      break;
    case Filling::alternating:
      each(data.q, [&](Index row, Index d) { return (row + d) % 2 ? -1.5 : 1.5; });
      each(data.k, [&](Index row, Index d) { return (row / 2 + d) % 2 ? -1.0 : 1.0; });
      for (std::size_t i = 0; i < data.v.size(); ++i) data.v[i] = i % 2 ? -1.f : 1.f;
      break;
  }
  return data;
}

// A length that likes the edges of lanes, groups and tiles; at most `most`.
inline Index edgy(Random& random, Index most) {
  const double r = random.uniform();
  Index n = 0;
  if (r < 0.04) {
    n = 0;
  } else if (r < 0.15) {
    n = 1;
  } else if (r < 0.45) {
    n = random.pick<Index>({3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33});
  } else if (r < 0.60) {
    n = random.pick<Index>({63, 64, 65, 127, 128, 129, 130});
  } else {
    n = random.integer(1, 24);
  }
  return n > most ? random.integer(0, most) : n;
}

}  // namespace support

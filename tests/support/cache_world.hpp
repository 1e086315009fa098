// SPDX-License-Identifier: Apache-2.0
//
// Tokens for a cache: q, k, v of whole sequences, and calls on pieces of them. Outputs stand
// between fences and are filled with NaN first.

#pragma once

#include <heed/heed.hpp>
#include <sstream>

#include "world.hpp"

namespace support {

// A piece of time of every batch entry (or of one), as views.
struct Piece {
  heed::View<const float> q, k, v;
};

inline Piece piece(const World& w, Index from, Index count, Index entry = -1) {
  const Extents& e = w.shape;
  const auto cut = [&](const std::vector<float>& x, Index heads, Index width) {
    const Index h = e.q_len * width, b = heads * h;
    return heed::View<const float>(x.data() + (entry < 0 ? 0 : entry * b) + from * width,
                                   {entry < 0 ? e.batch : 1, heads, count, width}, {b, h, width});
  };
  return {cut(w.data.q, e.heads, e.dim), cut(w.data.k, e.kv_heads, e.dim),
          cut(w.data.v, e.kv_heads, e.v_dim)};
}

inline World cache_world(Extents e, std::uint64_t seed, Filling filling = Filling::normal) {
  e.kv_len = e.q_len;
  return World(e, filling, seed);
}

template <class E>
heed::CacheOptions options_of(const World& w, E&&) {
  return {.batch = w.shape.batch, .heads = w.shape.heads, .kv_heads = w.shape.kv_heads,
          .dim = w.shape.dim, .v_dim = w.shape.v_dim};
}

// Runs f(into) with fenced outputs for [batch, heads, count].
template <class F>
Outputs with_outputs(const World& w, const Piece& p, F&& f) {
  const Index rows = p.q.batch() * p.q.heads() * p.q.time();
  Fenced out(rows * w.shape.v_dim), lse(rows), entropy(rows);
  heed::Into into;
  into.out = {out.data(), {p.q.batch(), p.q.heads(), p.q.time(), w.shape.v_dim}};
  into.lse = {lse.data(), {p.q.batch(), p.q.heads(), p.q.time()}};
  into.entropy = {entropy.data(), {p.q.batch(), p.q.heads(), p.q.time()}};
  f(into);
  return {out.take(), lse.take(), entropy.take(), {}};
}

template <class C, class... Ps>
Outputs decode_piece(const World& w, const Piece& p, C& cache, const Ps&... policies) {
  return with_outputs(w, p, [&](const heed::Into& into) {
    heed::decode(into, p.q, p.k, p.v, cache, policies...);
  });
}
template <class C, class... Ps>
Outputs prefill_piece(const World& w, const Piece& p, C& cache, heed::Prefill how,
                      const Ps&... policies) {
  return with_outputs(w, p, [&](const heed::Into& into) {
    heed::prefill(into, p.q, p.k, p.v, cache, how, policies...);
  });
}

// Row t of outputs for [batch, heads, count].
inline Outputs row_of(const World& w, const Outputs& all, Index count, Index t) {
  Outputs one;
  const std::size_t width = size(w.shape.v_dim);
  for (std::size_t row = size(t); row < all.lse.size(); row += size(count)) {
    for (std::size_t d = 0; d < width; ++d) one.out.push_back(all.out[row * width + d]);
    one.lse.push_back(all.lse[row]);
    one.entropy.push_back(all.entropy[row]);
  }
  return one;
}

// The whole state, bit for bit.
template <class C>
std::string state_of(const C& cache) {
  std::ostringstream bytes;
  cache.save(bytes);
  return bytes.str();
}

template <class C>
std::vector<Index> held(const C& cache, Index b = 0, Index kv_head = 0) {
  const auto p = cache.positions(b, kv_head);
  return {p.data, p.data + p.size};
}

}  // namespace support

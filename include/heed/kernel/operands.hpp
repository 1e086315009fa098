// SPDX-License-Identifier: Apache-2.0
//
// What a walk reads: the tensors of one call, checked, with keys encoded and values padded once
// per kv head, and the positions of every query and key.

#pragma once

#include <vector>

#include "../core/buffer.hpp"
#include "../core/parallel.hpp"
#include "../policy/pack.hpp"
#include "../policy/placement.hpp"

namespace heed::inline HEED_ABI {

// Checks q [batch, heads, q_len, dim], k [batch, kv_heads, kv_len, dim], v [batch, kv_heads,
// kv_len, v_dim] against each other.
inline Shape shape_of(const char* function, const View<const float>& q, const View<const float>& k,
                      const View<const float>& v) {
  const Shape s{function,  q.batch(), q.heads(), k.heads(), q.time(),
                k.time(), q.dim(),   v.dim()};
  using contract::text;
  for (const auto* view : {&q, &k, &v}) {
    const char* name = view == &q ? "q" : view == &k ? "k" : "v";
    Index size = 1;
    for (const Index extent : view->extent) {
      if (extent < 0) {
        contract::refuse(function, std::string(name) + " is " + text(view->extent),
                         "extents that are not negative");
      }
      size = contract::product(function, name, size, std::max<Index>(extent, 1));
    }
  }
  contract::same_shape(function, "k", k.extent, {s.batch, k.heads(), k.time(), s.dim});
  contract::same_shape(function, "v", v.extent, {s.batch, k.heads(), k.time(), v.dim()});
  if (s.dim == 0 && s.batch * s.heads * s.q_len != 0) {
    contract::refuse(function, "q has dim 0", "a dim of at least 1");
  }
  if (s.heads != 0 && (s.kv_heads == 0 || s.heads % s.kv_heads != 0)) {
    contract::refuse(function, "k has " + text(s.kv_heads) + " heads",
                     "a divisor of q's " + text(s.heads) + " heads");
  }
  return s;
}

// The positions of one batch entry.
struct Placed {
  Extents extents;
  const Index* query = nullptr;   // [q_len]
  const Index* key = nullptr;     // [kv_len], ascending
};

// Rows of one stream, [batch, kv_heads, kv_len, width]: the caller's memory, or scratch where the
// vectors are encoded or padded.
struct Stream {
  View<const float> view;
  Buffer<float> scratch;
};

template <class... Ps>
class Operands {
 public:
  using Policies = Pack<Ps...>;
  using Tables = decltype(std::declval<Pack<Ps...>>().tables(List<Index>{}, Index{}));

  template <class E>
  Operands(E&& executor, const Shape& the_shape, View<const float> queries,
           View<const float> keys, View<const float> values, const Pack<Ps...>& the_pack,
           bool pad_keys = false)
      : shape(the_shape), pack(the_pack), q(queries) {
    place();
    const GateStream gates = pack.gate_stream();
    stream_[int(Source::key)].view = keys;
    stream_[int(Source::value)].view = values;
    stream_[int(Source::gate)].view = gates.keys;
    padded_dim = padded(shape.dim);
    padded_width = padded(shape.v_dim);
    const Index key_width = pad_keys ? padded_dim : shape.dim;
    if (Pack<Ps...>::kEncoded || key_width != shape.dim) {
      rewrite(executor, Source::key, key_width);
      if (gates.source == Source::gate) rewrite(executor, Source::gate, key_width);
    }
    if (padded_width != shape.v_dim) rewrite(executor, Source::value, padded_width);
    zeros = Buffer<float>(std::max(padded_dim, padded_width));
    std::fill_n(zeros.data(), zeros.size(), 0.0f);
  }

  const Placed& placed(Index b, Index /*kv_head*/) const { return placed_[std::size_t(b)]; }
  const float* row(Source s, Index b, Index kv_head, Index i) const {
    return stream_[int(s)].view.row(b, kv_head, i);
  }
  bool has_gates() const { return stream_[int(Source::gate)].view.data != nullptr; }
  const Tables& query_tables(Index b) const { return query_tables_[std::size_t(b)]; }
  const Tables& key_tables(Index b) const { return key_tables_[std::size_t(b)]; }

  const Shape shape;
  const Pack<Ps...>& pack;
  const View<const float> q;
  Index padded_dim = 0;         // dim and v_dim, rounded up to whole vectors
  Index padded_width = 0;
  Buffer<float> zeros;          // a row for hidden keys

 private:
  void place() {
    if constexpr (Pack<Ps...>::kPlaced) {
      place_by(pack.placement());
    } else {
      place_by(BottomRight{});
    }
  }
  template <class P>
  void place_by(const P& placement) {
    positions_ = Buffer<Index>(shape.batch * (shape.q_len + shape.kv_len));
    Index* next = positions_.data();
    for (Index b = 0; b < shape.batch; ++b) {
      const Extents extents = placement.extents(shape, b);
      Index* const query = next;
      for (Index i = 0; i < extents.q_len; ++i) query[i] = placement.query_position(shape, b, i);
      Index* const key = query + shape.q_len;
      for (Index j = 0; j < extents.kv_len; ++j) key[j] = placement.key_position(shape, b, j);
      next = key + shape.kv_len;
      placed_.push_back({extents, query, key});
      if constexpr (Pack<Ps...>::kEncoded) {
        query_tables_.push_back(pack.tables({query, extents.q_len}, shape.dim));
        key_tables_.push_back(pack.tables({key, extents.kv_len}, shape.dim));
      }
    }
  }
  static Index padded(Index n) { return (n + simd::kPad - 1) / simd::kPad * simd::kPad; }

  // Copies the rows of a stream into scratch, `width` apart, and encodes keys there.
  template <class E>
  void rewrite(E&& executor, Source source, Index width) {
    constexpr Index kRowsPerJob = 1024;
    Stream& stream = stream_[int(source)];
    const View<const float> from = stream.view;
    stream.scratch = Buffer<float>(shape.batch * shape.kv_heads * shape.kv_len * width);
    float* const to = stream.scratch.data();
    const Index jobs_per_head = (shape.kv_len + kRowsPerJob - 1) / kRowsPerJob;
    run(executor, shape.batch * shape.kv_heads * jobs_per_head, [&](Index job) {
      const Index head = job / jobs_per_head, b = head / shape.kv_heads;
      const Index begin = job % jobs_per_head * kRowsPerJob;
      const Index end = std::min(begin + kRowsPerJob, placed_[std::size_t(b)].extents.kv_len);
      for (Index j = begin; j < end; ++j) {
        float* const row = to + (head * shape.kv_len + j) * width;
        std::copy_n(from.row(b, head % shape.kv_heads, j), from.dim(), row);
        std::fill_n(row + from.dim(), width - from.dim(), 0.0f);
        if constexpr (Pack<Ps...>::kEncoded) {
          if (source != Source::value) {
            pack.encode(Vector(row, shape.dim), j, key_tables_[std::size_t(b)]);
          }
        }
      }
    });
    stream.view = View<const float>(to, {shape.batch, shape.kv_heads, shape.kv_len, width});
  }

  std::vector<Placed> placed_;   // per batch entry
  Stream stream_[3];
  Buffer<Index> positions_;
  std::vector<Tables> query_tables_, key_tables_;
};

}  // namespace heed::inline HEED_ABI

// SPDX-License-Identifier: Apache-2.0
//
// Where queries and keys stand. Masks and position encodings read positions, never indices.
//
//   (nothing)             row i at kv_len - q_len + i, key j at j: the queries are the last ones
//   top_left              row i at i, key j at j
//   Positions{.q, .k}     as listed
//   Lengths{.q, .kv}      right-padded: of entry b the first q[b] rows and kv[b] keys are valid,
//                         row i at kv[b] - q[b] + i; other rows give 0, other keys are not read
//
// Positions are 64-bit, of any sign, between -2^62 and 2^62.

#pragma once

#include "concepts.hpp"

namespace heed::inline HEED_ABI {

// The default, which every kernel with a cache needs.
struct BottomRight {
  Index query_position(const Shape& shape, Index, Index row) const {
    return shape.kv_len - shape.q_len + row;
  }
  Index key_position(const Shape&, Index, Index index) const { return index; }
  Extents extents(const Shape& shape, Index) const { return {shape.q_len, shape.kv_len}; }
};

struct TopLeft {
  Index query_position(const Shape&, Index, Index row) const { return row; }
  Index key_position(const Shape&, Index, Index index) const { return index; }
  Extents extents(const Shape& shape, Index) const { return {shape.q_len, shape.kv_len}; }
};
inline constexpr TopLeft top_left{};

// Strictly ascending within a batch entry.
struct Positions {
  List<Index> q{};   // [q_len], the same for all batch entries, or [batch, q_len]
  List<Index> k{};   // [kv_len], or [batch, kv_len]

  void check(const Shape& shape) const {
    check_list(shape, "q", q, shape.q_len);
    check_list(shape, "k", k, shape.kv_len);
  }
  Index query_position(const Shape& shape, Index batch, Index row) const {
    return q[q.size == shape.q_len ? row : batch * shape.q_len + row];
  }
  Index key_position(const Shape& shape, Index batch, Index index) const {
    return k[k.size == shape.kv_len ? index : batch * shape.kv_len + index];
  }
  Extents extents(const Shape& shape, Index) const { return {shape.q_len, shape.kv_len}; }

 private:
  static constexpr Index kFar = Index{1} << 62;   // so that differences do not overflow

  static void check_list(const Shape& shape, const char* name, const List<Index>& list, Index len) {
    using contract::text;
    const std::string list_name = std::string("Positions.") + name;
    if (list.size != len &&
        list.size != contract::product(shape.function, "Positions", shape.batch, len)) {
      contract::refuse(shape.function, list_name + " has " + text(list.size) + " numbers",
                       text(len) + ", or " + text(shape.batch) + " x " + text(len) +
                           " for every batch entry its own");
    }
    for (Index i = 0; i < list.size; ++i) {
      const bool first = i % len == 0;
      if (list[i] >= -kFar && list[i] <= kFar && (first || list[i] > list[i - 1])) continue;
      contract::refuse(shape.function,
                       list_name + " has " + text(list[i]) + " at " + text(i) +
                           (first ? "" : ", after " + text(list[i - 1])),
                       "strictly ascending positions between -2^62 and 2^62");
    }
  }
};

struct Lengths {
  List<Index> q{};    // [batch] valid rows, 0 ... q_len; empty: all rows of every entry
  List<Index> kv{};   // [batch] valid keys, 0 ... kv_len

  void check(const Shape& shape) const {
    if (q.size != 0) check_list(shape, "q", q, shape.q_len);
    check_list(shape, "kv", kv, shape.kv_len);
  }
  Index query_position(const Shape& shape, Index batch, Index row) const {
    const Extents valid = extents(shape, batch);
    return valid.kv_len - valid.q_len + row;
  }
  Index key_position(const Shape&, Index, Index index) const { return index; }
  Extents extents(const Shape& shape, Index batch) const {
    return {q.size == 0 ? shape.q_len : q[batch], kv[batch]};
  }

 private:
  static void check_list(const Shape& shape, const char* name, const List<Index>& list, Index len) {
    using contract::text;
    const std::string list_name = std::string("Lengths.") + name;
    if (list.size != shape.batch) {
      contract::refuse(shape.function, list_name + " has " + text(list.size) + " numbers",
                       "one per batch entry, " + text(shape.batch));
    }
    for (Index b = 0; b < list.size; ++b) {
      if (list[b] >= 0 && list[b] <= len) continue;
      contract::refuse(shape.function,
                       list_name + " has " + text(list[b]) + " for entry " + text(b),
                       "between 0 and " + text(len));
    }
  }
};

}  // namespace heed::inline HEED_ABI

// SPDX-License-Identifier: Apache-2.0
//
// Several documents packed into one sequence: a query sees the keys of its own document.
//
//   visible(i, j) = q[i] == k[j]        ids by row and key index, any numbers
//
// The lists hold one id per row and per key, for all batch entries alike; or, with .batch = B, the
// ids of B entries after each other.

#pragma once

#include <algorithm>

#include "concepts.hpp"

namespace heed::inline HEED_ABI {

struct SameDocument {
  static constexpr bool causal = false;
  List<Index> q{};      // [q_len], or [batch, q_len]
  List<Index> k{};      // [kv_len], or [batch, kv_len]; empty: the same as q
  Index batch = 1;      // entries that the lists hold

  void check(const Shape& shape) const {
    const auto expect = [&](bool good, const std::string& found, const std::string& expected) {
      if (!good) contract::refuse(shape.function, found, expected);
    };
    using contract::text;
    expect(batch == 1 || batch == shape.batch,
           "SameDocument has ids of " + text(batch) + " batch entries",
           "1 or q's " + text(shape.batch));
    expect(q.size == batch * shape.q_len, "SameDocument has " + text(q.size) + " ids of queries",
           text(batch) + " x " + text(shape.q_len) + " (.batch x q_len)");
    expect(shape.kv_len == 0 || of_keys().size == batch * shape.kv_len,
           "SameDocument has " + text(of_keys().size) + " ids of keys",
           text(batch) + " x " + text(shape.kv_len) + " (.batch x kv_len)");
  }
  bool visible(Query query, Key key) const {
    return queries(query.batch)[query.row] == keys(query.batch)[key.index];
  }
  Visibility visibility(const Rows& rows, const Keys& tile) const {
    const Index* row_ids = queries(rows.batch);
    const Index* key_ids = keys(rows.batch) + tile.first;
    const auto [row_min, row_max] =
        range(rows.count, [&](Index lane) { return row_ids[rows.row[lane]]; });
    const auto [key_min, key_max] = range(tile.count, [&](Index i) { return key_ids[i]; });
    if (row_min > key_max || key_min > row_max) return Visibility::none;
    const bool one = row_min == row_max && key_min == key_max;
    return one ? Visibility::all : Visibility::some;
  }
  LaneBits lanes(const Rows& rows, Key key) const {
    const Index* row_ids = queries(rows.batch);
    const Index id = keys(rows.batch)[key.index];
    LaneBits bits = 0;
    for (Index lane = 0; lane < rows.count; ++lane) {
      bits |= LaneBits{row_ids[rows.row[lane]] == id} << lane;
    }
    return bits;
  }

 private:
  const List<Index>& of_keys() const { return k.size == 0 ? q : k; }
  const Index* queries(Index b) const { return entry(q, b); }
  const Index* keys(Index b) const { return entry(of_keys(), b); }
  const Index* entry(const List<Index>& ids, Index b) const {
    return batch == 1 ? ids.data : ids.data + b * (ids.size / batch);
  }
  template <class At>
  static std::pair<Index, Index> range(Index count, const At& at) {
    std::pair<Index, Index> found{at(0), at(0)};
    for (Index i = 1; i < count; ++i) {
      found = {std::min(found.first, at(i)), std::max(found.second, at(i))};
    }
    return found;
  }
};

}  // namespace heed::inline HEED_ABI

// SPDX-License-Identifier: Apache-2.0
//
// Where results go: the caller's memory, checked against the shapes and against the inputs before
// anything is written.

#pragma once

#include "../core/view.hpp"
#include "../policy/concepts.hpp"

namespace heed {
inline namespace HEED_DATA_ABI {

// Attention weights of chosen query rows.
struct Weights {
  View<float> to{};     // [batch, heads, n, kv_len]; hidden keys get 0
  List<Index> rows{};   // the n rows, each once; empty: the last n
};

// Members that are left out are not wanted; `out` always is.
struct Into {
  View<float> out{};      // [batch, heads, q_len, v_dim]
  RowView lse{};          // [batch, heads, q_len], natural logarithm; -inf for an empty row
  RowView entropy{};      // [batch, heads, q_len], nats
  Weights weights{};
  View<float> carry{};    // [batch, heads, q_len, Pack::kCarry]: what walking scores hand over
};

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {
namespace detail {

// The bytes a view touches.
struct Bytes {
  std::uintptr_t begin = 0, end = 0;

  template <class T, std::size_t n>
  static Bytes of(const T* data, const std::array<Index, n>& extent,
                  const std::array<Index, n>& stride) {
    Index low = 0, high = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (extent[i] == 0) return {};
      (stride[i] < 0 ? low : high) += (extent[i] - 1) * stride[i];
    }
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    return {at + std::uintptr_t(low * Index(sizeof(T))),
            at + std::uintptr_t((high + 1) * Index(sizeof(T)))};
  }
  template <class T>
  static Bytes of(const View<T>& v) {
    return of(v.data, v.extent, std::array<Index, 4>{v.stride[0], v.stride[1], v.stride[2], 1});
  }
  static Bytes of(const RowView& v) { return of(v.data, v.extent, v.stride); }
  bool overlaps(const Bytes& other) const { return begin < other.end && other.begin < end; }
};

inline void check_into(const Into& into, const Shape& s, Index carry) {
  using contract::same_shape;
  if (into.out.data == nullptr && s.batch * s.heads * s.q_len * s.v_dim != 0) {
    contract::refuse(s.function, "Into has no .out",
                     "a view of [batch, heads, q_len, v_dim] to write to");
  }
  same_shape(s.function, "out", into.out.extent, {s.batch, s.heads, s.q_len, s.v_dim});
  const auto check_rows = [&](const char* name, const RowView& view) {
    if (view.data == nullptr) return;
    same_shape(s.function, name, {view.extent[0], view.extent[1], view.extent[2], 1},
               {s.batch, s.heads, s.q_len, 1});
  };
  check_rows("lse", into.lse);
  check_rows("entropy", into.entropy);
  if (into.carry.data != nullptr) {
    same_shape(s.function, "carry", into.carry.extent, {s.batch, s.heads, s.q_len, carry});
  }
  if (into.weights.to.data == nullptr) return;
  const Index n = into.weights.to.time();
  same_shape(s.function, "weights", into.weights.to.extent, {s.batch, s.heads, n, s.kv_len});
  if (into.weights.rows.size == 0 ? n > s.q_len : into.weights.rows.size != n) {
    contract::refuse(s.function, "weights has room for " + contract::text(n) + " rows",
                     into.weights.rows.size == 0
                         ? "at most q_len = " + contract::text(s.q_len)
                         : "as many as are chosen, " + contract::text(into.weights.rows.size));
  }
  for (Index i = 0; i < into.weights.rows.size; ++i) {
    const Index row = into.weights.rows[i];
    if (row < 0 || row >= s.q_len) {
      contract::refuse(s.function, "weights asks for row " + contract::text(row),
                       "a row in [0, " + contract::text(s.q_len) + ")");
    }
  }
}

// Outputs must not overlap inputs or each other: rows are written while others are still read.
inline void check_apart(const char* function, const Into& into,
                        std::initializer_list<std::pair<const char*, Bytes>> inputs) {
  const std::pair<const char*, Bytes> outputs[] = {{"out", Bytes::of(into.out)},
                                                   {"lse", Bytes::of(into.lse)},
                                                   {"entropy", Bytes::of(into.entropy)},
                                                   {"weights", Bytes::of(into.weights.to)},
                                                   {"carry", Bytes::of(into.carry)}};
  const auto refuse = [&](const char* output, const char* other) {
    contract::refuse(function, std::string(output) + " overlaps " + other + " in memory",
                     "outputs of their own");
  };
  for (std::size_t i = 0; i < std::size(outputs); ++i) {
    for (const auto& [name, bytes] : inputs) {
      if (outputs[i].second.overlaps(bytes)) refuse(outputs[i].first, name);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (outputs[i].second.overlaps(outputs[j].second)) refuse(outputs[i].first, outputs[j].first);
    }
  }
}

}  // namespace detail
}  // namespace HEED_ABI
}  // namespace heed

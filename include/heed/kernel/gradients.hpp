// SPDX-License-Identifier: Apache-2.0
//
// What the backward pass is given and what it returns. Between the passes only out and lse are
// kept: one float per query row beyond the output.

#pragma once

#include "../policy/adjoint.hpp"
#include "attend.hpp"

namespace heed {
inline namespace HEED_DATA_ABI {

// Where the gradients of the operands go. All three are wanted; gate_keys goes with
// Cope{...}.gate_keys(...) and only with it.
struct GradientsInto {
  View<float> q{};           // [batch, heads, q_len, dim]
  View<float> k{};           // [batch, kv_heads, kv_len, dim]
  View<float> v{};           // [batch, kv_heads, kv_len, v_dim]
  View<float> gate_keys{};   // [batch, kv_heads, kv_len, dim]
};

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {

// The result of attend_saving.
template <class Out>
struct Saved {
  Out out;                       // what attend returns
  std::vector<float> lse_data;   // [batch, heads, q_len]
  std::array<Index, 3> extent{};

  RowView lse() const { return RowView(const_cast<float*>(lse_data.data()), extent); }
};

// Everything: q, k and v are what the operands are, the policies' parameters come by of<P>() and
// at<i>().
template <class Q, class K, class V, class... Ps>
struct Gradients : PolicyGradients<Ps...> {
  Q q;
  K k;
  V v;
  std::vector<float> gate_keys_data;   // packed; empty without gate keys
  std::array<Index, 4> gate_keys_extent{};

  Gradients(Q dq, K dk, V dv) : q(std::move(dq)), k(std::move(dk)), v(std::move(dv)) {}
  View<const float> gate_keys() const { return {gate_keys_data.data(), gate_keys_extent}; }
};

}  // namespace HEED_ABI
}  // namespace heed

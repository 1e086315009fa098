// SPDX-License-Identifier: Apache-2.0
//
// attend: softmax(q k' / sqrt(dim), changed by policies) v, exactly, with memory linear in the
// length (Dao et al., arXiv 2205.14135, on tiles of 64 x 64).
//
//   out = attend(q, k, v, policies...)                    returns what q is, with v's width
//   out = attend(device, q, k, v, policies...)            Eigen::ThreadPoolDevice or any executor
//   attend([device,] Into{.out = ...}, q, k, v, ...)      writes into the caller's memory
//
// q [batch, heads, q_len, dim], k [batch, kv_heads, kv_len, dim], v [batch, kv_heads, kv_len,
// v_dim], float; kv head = query head / (heads / kv_heads). Query rows stand at the end of the
// keys' positions unless a placement says otherwise. Without a mask every key is visible. A row
// that sees nothing is 0 with lse = -inf. Throws std::invalid_argument for shapes and values that
// do not fit, before anything is written, and std::bad_alloc.

#pragma once

#include "forward.hpp"

namespace heed::inline HEED_ABI {
namespace detail {

// The owning type that stands for Q when a result is returned.
template <class Q>
struct OwningOf {
  using type = Q;   // Eigen::Tensor
};
template <template <class, int, template <class> class> class Map, class Plain, int options,
          template <class> class Pointer>
struct OwningOf<Map<Plain, options, Pointer>> {
  using type = std::remove_const_t<Plain>;   // Eigen::TensorMap
};

template <class Q>
inline constexpr bool kIsOrdered = false;
template <class T, class P, Order order>
inline constexpr bool kIsOrdered<Ordered<T, P, order>> = true;

// An owning result like q, and a view of it.
template <class Q>
auto make_like(const Q&, Index b, Index h, Index t, Index d) {
  return typename OwningOf<Q>::type(b, h, t, d);
}
template <class T, class Plain>
auto make_like(const Ordered<T, Plain, Order::bthd>&, Index b, Index h, Index t, Index d) {
  return typename OwningOf<Plain>::type(b, t, h, d);
}
template <class T, class Plain>
auto make_like(const Ordered<T, Plain, Order::split>&, Index, Index h, Index t, Index d) {
  return Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>(
      t, h * d);
}
template <class Result, class Q>
View<float> view_like(Result& result, const Q&, Index) {
  return View<float>(result);
}
template <class Result, class T, class Plain>
View<float> view_like(Result& result, const Ordered<T, Plain, Order::bthd>&, Index) {
  return View<float>(bthd(result));
}
template <class Result, class T, class Plain>
View<float> view_like(Result& result, const Ordered<T, Plain, Order::split>&, Index heads) {
  return View<float>(split_heads(result, heads));
}

template <class E, class Q, class... Ps>
auto attend_new(E&& executor, const Q& q, View<const float> k, View<const float> v,
                const Pack<Ps...>& pack) {
  static_assert(!ViewLike<Q>,
                "heed: a View owns no memory to return; use attend(Into{.out = ...}, q, k, v, ...)");
  const View<const float> query(q);
  const Shape shape = shape_of("attend", query, k, v);
  pack.check(shape);
  auto result = make_like(q, shape.batch, shape.heads, shape.q_len, shape.v_dim);
  Into into;
  into.out = view_like(result, q, shape.heads);
  forward(executor, into, query, k, v, pack);
  return result;
}

template <class First>
constexpr bool is_executor() {
  if constexpr (TensorLike<First> || MatrixLike<First>) {
    return false;
  } else {
    return Executor<First>;
  }
}

template <class E, class Q, class K, class V, class... Ps>
void attend_into(E&& executor, const Into& into, const Q& q, const K& k, const V& v,
                 const Ps&... policies) {
  forward(executor, into, View<const float>(q), View<const float>(k), View<const float>(v),
          pack(policies...));
}

template <class E, class Q, class K, class V, class... Ps>
auto attend_on(E&& executor, const Q& q, const K& k, const V& v, const Ps&... policies) {
  if constexpr (std::same_as<Q, Into>) {
    return attend_into(executor, q, k, v, policies...);
  } else {
    return attend_new(executor, q, View<const float>(k), View<const float>(v), pack(policies...));
  }
}

}  // namespace detail

template <class First, class... Rest>
auto attend(First&& first, const Rest&... rest) {
  static_assert(sizeof...(Rest) >= 2,
                "heed: attend takes ([device,] [Into{...},] q, k, v, policies...)");
  if constexpr (detail::is_executor<First>()) {
    return detail::attend_on(first, rest...);
  } else {
    return detail::attend_on(Serial{}, first, rest...);
  }
}

}  // namespace heed::inline HEED_ABI

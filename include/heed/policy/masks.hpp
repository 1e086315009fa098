// SPDX-License-Identifier: Apache-2.0
//
// Which pairs may meet, by position: causal, Window, Sinks, a predicate, and the algebra & | !.
//
//   causal      position(key) <= position(query)
//   Window{W}   position(query) - position(key) < W          (Mistral, arXiv 2310.06825)
//   Sinks{n}    position(key) < n                            (StreamingLLM, arXiv 2309.17453)
//   where(f)    f(query position, key position), or f(Query, Key)
//
// causal & (Window{1024} | Sinks{4}) is a sliding window that keeps the first four keys. Write
// (!a) & b: GCC takes !a & b for a slip of the pen (-Wparentheses).

#pragma once

#include "concepts.hpp"

namespace heed::inline HEED_ABI {

namespace detail {

template <class P>
void check_if_any(const P& policy, const Shape& shape) {
  if constexpr (requires { policy.check(shape); }) policy.check(shape);
}

// Lanes whose position passes a test, for rows that do not stand next to each other.
template <class Test>
LaneBits lanes_where(const Rows& rows, const Test& test) {
  LaneBits bits = 0;
  for (Index lane = 0; lane < rows.count; ++lane) {
    bits |= LaneBits{test(rows.position[lane])} << lane;
  }
  return bits;
}

}  // namespace detail

// No key later than its query.
struct Causal {
  static constexpr bool causal = true;

  bool visible(Query query, Key key) const { return key.position <= query.position; }
  Visibility visibility(const Rows& rows, const Keys& keys) const {
    if (keys.max_position() <= rows.min_position) return Visibility::all;
    if (keys.min_position() > rows.max_position) return Visibility::none;
    return Visibility::some;
  }
  LaneBits lanes(const Rows& rows, Key key) const {
    if (!rows.consecutive) {
      return detail::lanes_where(rows, [=](Index p) { return key.position <= p; });
    }
    const Index first = key.position - rows.position[0];   // the first lane that sees the key
    if (first >= kRows) return 0;
    return first <= 0 ? ~LaneBits{0} : ~LaneBits{0} << first;
  }
};
inline constexpr Causal causal{};

// The last `size` positions, the query's own among them; later keys too, so it mostly stands
// beside causal. size >= 1.
struct Window {
  static constexpr bool causal = false;
  Index size;

  void check(const Shape& shape) const {
    if (size >= 1) return;
    contract::refuse(shape.function, "the Window holds " + contract::text(size) + " positions",
                     "at least 1");
  }
  bool visible(Query query, Key key) const { return query.position - key.position < size; }
  Visibility visibility(const Rows& rows, const Keys& keys) const {
    if (rows.max_position - keys.min_position() < size) return Visibility::all;
    if (rows.min_position - keys.max_position() >= size) return Visibility::none;
    return Visibility::some;
  }
  LaneBits lanes(const Rows& rows, Key key) const {
    if (!rows.consecutive) {
      return detail::lanes_where(rows, [=, this](Index p) { return p - key.position < size; });
    }
    const Index distance = rows.position[0] - key.position;   // of lane 0, the nearest
    if (distance >= size) return 0;
    if (distance + kRows <= size) return ~LaneBits{0};
    const Index seen = size - distance;   // the first `seen` lanes
    return seen >= kRows ? ~LaneBits{0} : (LaneBits{1} << seen) - 1;
  }
};

// The first `count` positions, for every query. count >= 0.
struct Sinks {
  static constexpr bool causal = false;
  Index count;

  void check(const Shape& shape) const {
    if (count >= 0) return;
    contract::refuse(shape.function, "there are " + contract::text(count) + " Sinks", "at least 0");
  }
  bool visible(Query, Key key) const { return key.position < count; }
  Visibility visibility(const Rows&, const Keys& keys) const {
    if (keys.max_position() < count) return Visibility::all;
    return keys.min_position() >= count ? Visibility::none : Visibility::some;
  }
  LaneBits lanes(const Rows&, Key key) const { return key.position < count ? ~LaneBits{0} : 0; }
};

// A predicate of two positions, or of a Query and a Key (batch, head, row and index too). It is
// asked for every pair of every tile that no mask beside it excludes.
template <class F>
struct Where {
  static constexpr bool causal = false;
  F predicate;

  bool visible(Query query, Key key) const {
    if constexpr (std::is_invocable_v<const F&, Index, Index>) {
      return static_cast<bool>(predicate(query.position, key.position));
    } else {
      static_assert(std::is_invocable_v<const F&, Query, Key>,
                    "heed: where takes a predicate f(Index query_position, Index key_position) or "
                    "f(heed::Query, heed::Key) that can be called on a const object");
      return static_cast<bool>(predicate(query, key));
    }
  }
  Visibility visibility(const Rows&, const Keys&) const { return Visibility::some; }
};
template <class F>
Where(F) -> Where<F>;

template <class F>
constexpr Where<F> where(F predicate) {
  return {std::move(predicate)};
}

// Both. Causal as soon as one of them is.
template <class A, class B>
struct And {
  static constexpr bool causal = A::causal || B::causal;
  A a;
  B b;

  void check(const Shape& shape) const {
    detail::check_if_any(a, shape);
    detail::check_if_any(b, shape);
  }
  bool visible(Query query, Key key) const {
    return a.visible(query, key) && b.visible(query, key);
  }
  Visibility visibility(const Rows& rows, const Keys& keys) const {
    const Visibility left = a.visibility(rows, keys);
    if (left == Visibility::none) return left;
    const Visibility right = b.visibility(rows, keys);
    if (right == Visibility::none) return right;
    return left == right ? left : Visibility::some;
  }
  LaneBits lanes(const Rows& rows, Key key) const {
    return lanes_of(a, rows, key) & lanes_of(b, rows, key);
  }
};
template <class A, class B>
And(A, B) -> And<A, B>;

// At least one. Causal only if both are.
template <class A, class B>
struct Or {
  static constexpr bool causal = A::causal && B::causal;
  A a;
  B b;

  void check(const Shape& shape) const {
    detail::check_if_any(a, shape);
    detail::check_if_any(b, shape);
  }
  bool visible(Query query, Key key) const {
    return a.visible(query, key) || b.visible(query, key);
  }
  Visibility visibility(const Rows& rows, const Keys& keys) const {
    const Visibility left = a.visibility(rows, keys);
    if (left == Visibility::all) return left;
    const Visibility right = b.visibility(rows, keys);
    if (right == Visibility::all) return right;
    return left == right ? left : Visibility::some;
  }
  LaneBits lanes(const Rows& rows, Key key) const {
    return lanes_of(a, rows, key) | lanes_of(b, rows, key);
  }
};
template <class A, class B>
Or(A, B) -> Or<A, B>;

// The pairs that `a` hides. Never causal at compile time.
template <class A>
struct Not {
  static constexpr bool causal = false;
  A a;

  void check(const Shape& shape) const { detail::check_if_any(a, shape); }
  bool visible(Query query, Key key) const { return !a.visible(query, key); }
  Visibility visibility(const Rows& rows, const Keys& keys) const {
    const Visibility inner = a.visibility(rows, keys);
    if (inner == Visibility::some) return inner;
    return inner == Visibility::all ? Visibility::none : Visibility::all;
  }
  LaneBits lanes(const Rows& rows, Key key) const { return ~lanes_of(a, rows, key); }
};
template <class A>
Not(A) -> Not<A>;

template <Mask A, Mask B>
constexpr And<A, B> operator&(A a, B b) {
  return {std::move(a), std::move(b)};
}
template <Mask A, Mask B>
constexpr Or<A, B> operator|(A a, B b) {
  return {std::move(a), std::move(b)};
}
template <Mask A>
constexpr Not<A> operator!(A a) {
  return {std::move(a)};
}

}  // namespace heed::inline HEED_ABI

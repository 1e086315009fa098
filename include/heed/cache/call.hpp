// SPDX-License-Identifier: Apache-2.0
//
// What decode and prefill have in common: the checks of a call against its cache, before anything
// is written, and where the new tokens stand.
//
//   (nothing)             every entry gets all rows, behind its last position
//   Lengths{.q, .kv}      ragged: entry b gets the first q[b] = kv[b] rows; other rows give 0
//   Positions{.q, .k}     as listed, both the same, ascending, beyond the entry's last position

#pragma once

#include "../kernel/into.hpp"
#include "../kernel/operands.hpp"
#include "../policy/dense.hpp"
#include "../policy/documents.hpp"
#include "../policy/masks.hpp"
#include "access.hpp"

namespace heed::inline HEED_ABI::detail {

// Policies that look things up by row and key index, in whatever mask they are wrapped.
template <class P>
inline constexpr bool kByIndex = std::same_as<P, DenseMask> || std::same_as<P, Bias> ||
                                 std::same_as<P, SameDocument>;
template <class A, class B>
inline constexpr bool kByIndex<And<A, B>> = kByIndex<A> || kByIndex<B>;
template <class A, class B>
inline constexpr bool kByIndex<Or<A, B>> = kByIndex<A> || kByIndex<B>;
template <class A>
inline constexpr bool kByIndex<Not<A>> = kByIndex<A>;

// One call's tensors and the positions of its tokens.
struct CacheCall {
  Shape shape;                 // q_len = kv_len = new tokens, padded
  View<const float> q, k, v, gates;
  const Index* count;          // [batch] valid tokens
  const Index* position;       // [batch, q_len]
};

template <class E, class... Ps>
Shape check_shapes(const char* function, const Cache<E>& cache, View<const float> q,
                   View<const float> k, View<const float> v, const Pack<Ps...>& pack) {
  static_assert(!(kByIndex<Ps> || ...),
                "heed: a DenseMask, Bias or SameDocument is laid out by key index, and a cache "
                "moves and evicts keys; say it by position, heed::where(...)");
  static_assert(!(kResume<Ps> || ...),
                "heed: a cache holds every key that is left, so there is nothing to Resume");
  const Shape s = shape_of(function, q, k, v);
  const CacheOptions& o = cache.options();
  contract::same_shape(function, "q", q.extent, {o.batch, o.heads, s.q_len, o.dim});
  contract::same_shape(function, "k", k.extent, {o.batch, o.kv_heads, s.q_len, o.dim});
  contract::same_shape(function, "v", v.extent, {o.batch, o.kv_heads, s.q_len, o.v_dim});
  pack.check(s);
  const GateStream gates = pack.gate_stream();
  if ((gates.source == Source::gate) != o.gate_keys) {
    contract::refuse(function, o.gate_keys ? "no gate keys" : "gate keys for a cache without",
                     o.gate_keys ? "Cope{...}.gate_keys(...), as CacheOptions::gate_keys says"
                                 : "CacheOptions::gate_keys to be true");
  }
  return s;
}

inline void check_cache_into(const Into& into, const Shape& shape, const CacheCall& call) {
  if (into.weights.to.data != nullptr || into.carry.data != nullptr) {
    contract::refuse(shape.function, "Into has weights or carry", "out, lse and entropy only");
  }
  check_into(into, shape, 0);
  check_apart(shape.function, into,
              {{"q", Bytes::of(call.q)},
               {"k", Bytes::of(call.k)},
               {"v", Bytes::of(call.v)},
               {"the gate keys", Bytes::of(call.gates)}});
}

template <class E>
void check_budgets_known(const Cache<E>& cache) {
  if (cache.options().budget_share == 0) return;
  for (Index b = 0; b < cache.options().batch; ++b) {
    if (cache.budget(b) >= 0) continue;
    contract::refuse("decode", "the budget is a share of a prompt, and entry " +
                                   contract::text(b) + " has had no prompt",
                     "prefill first");
  }
}

// Fills count and position, [batch] and [batch, q_len].
template <class E, class... Ps>
void place_tokens(const Cache<E>& cache, const Shape& shape, const Pack<Ps...>& pack, Index* count,
                  Index* position) {
  using contract::text;
  const auto place = [&](Index b, Index n, auto&& at) {
    count[b] = n;
    Index least = cache.next_position(b);
    for (Index i = 0; i < n; ++i) {
      const Index here = at(i);
      position[b * shape.q_len + i] = here;
      if (here < least && !(cache.seen(b) == 0 && i == 0)) {
        contract::refuse(shape.function, "position " + text(here) + " of entry " + text(b) +
                                             " goes backwards", "at least " + text(least));
      }
      least = here + 1;
    }
  };
  for (Index b = 0; b < shape.batch; ++b) {
    const auto behind = [&](Index i) { return cache.next_position(b) + i; };
    if constexpr (Pack<Ps...>::kPlaced) {
      const auto& placement = pack.placement();
      using Placement = std::remove_cvref_t<decltype(placement)>;
      static_assert(!std::same_as<Placement, TopLeft>,
                    "heed: new tokens stand behind those in the cache; give Lengths or Positions");
      const Extents valid = placement.extents(shape, b);
      if (valid.q_len != valid.kv_len) {
        contract::refuse(shape.function, "entry " + text(b) + " has " + text(valid.q_len) +
                                             " queries and " + text(valid.kv_len) + " keys",
                         "as many new keys as new queries");
      }
      if constexpr (std::same_as<Placement, Lengths>) {
        place(b, valid.q_len, behind);
      } else {
        place(b, valid.q_len, [&](Index i) {
          const Index at = placement.query_position(shape, b, i);
          if (at != placement.key_position(shape, b, i)) {
            contract::refuse(shape.function,
                             "a query at position " + text(at) + " with its key at " +
                                 text(placement.key_position(shape, b, i)),
                             "the same position for both");
          }
          return at;
        });
      }
    } else {
      place(b, shape.q_len, behind);
    }
  }
}

// Rows that hold no token: 0, lse -inf.
inline void write_idle(const Into& into, const CacheCall& call) {
  for (Index b = 0; b < call.shape.batch; ++b) {
    for (Index h = 0; h < call.shape.heads; ++h) {
      for (Index t = call.count[b]; t < call.shape.q_len; ++t) {
        if (into.out.dim() != 0) std::fill_n(into.out.row(b, h, t), into.out.dim(), 0.0f);
        if (into.lse.data != nullptr) into.lse(b, h, t) = -INFINITY;
        if (into.entropy.data != nullptr) into.entropy(b, h, t) = 0;
      }
    }
  }
}

}  // namespace heed::inline HEED_ABI::detail

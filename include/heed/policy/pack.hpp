// SPDX-License-Identifier: Apache-2.0
//
// The policies of one call, seen as the kernel sees them: one mask, one chain of encodings, one
// chain of scores. The kernel knows no policy by name; it knows the pack.

#pragma once

#include <tuple>

#include "concepts.hpp"

namespace heed::inline HEED_ABI {
namespace detail {

struct Nothing {};

template <class P>
auto state_of(const P& policy, const Rows& rows) {
  if constexpr (StatefulScore<P>) {
    return policy.begin(rows);
  } else {
    return Nothing{};
  }
}
template <class P>
using StateOf = decltype(state_of(std::declval<const P&>(), std::declval<const Rows&>()));

template <class State>
inline constexpr bool kHasCarry = requires(State& s) { s.carry; };
template <class State>
inline constexpr bool kHasOffset = requires(State& s) { s.offset; };
template <class P>
inline constexpr bool kHasGates = requires(const P& p) { p.gate_stream(); };

// How many numbers per row a walking score's carry has.
template <class State>
constexpr Index carry_size() {
  if constexpr (kHasCarry<State>) {
    return Index(sizeof(std::declval<State&>().carry) / sizeof(float)) / kRows;
  }
  return 0;
}

}  // namespace detail

template <class... Ps>
class Pack {
  static_assert((detail::check_policy<Ps>() && ...));
  static constexpr bool kWalks = (detail::kHasCarry<detail::StateOf<Ps>> || ...);

 public:
  using States = std::tuple<detail::StateOf<Ps>...>;

  static constexpr bool kMasked = (Mask<Ps> || ...);
  static constexpr bool kEncoded = (Encoding<Ps> || ...);
  static constexpr Index kCarry = (Index{0} + ... + detail::carry_size<detail::StateOf<Ps>>());
  // Whether no later key is ever visible.
  static constexpr bool kCausal = [] {
    bool causal = false;
    ((causal = causal || [] {
       if constexpr (Mask<Ps>) return bool(Ps::causal);
       return false;
     }()), ...);
    return causal;
  }();
  static_assert(!kWalks || kCausal,
                "heed: Cope (like every walking score) counts keys from the query backwards, so its "
                "mask must be causal; write causal & yours");
  static_assert((int(Placement<Ps>) + ... + 0) <= 1,
                "heed: more than one placement; give one of Positions, top_left, Lengths");
  static_assert((int(detail::kBaseScale<Ps>) + ... + 0) <= 1,
                "heed: more than one Scale; it replaces 1/sqrt(dim), give one");
  static_assert((int(detail::kHasGates<Ps>) + ... + 0) <= 1,
                "heed: more than one gate stream; a pack has one Cope");
  static_assert((int(detail::kResume<Ps>) + ... + 0) <= 1, "heed: more than one Resume; give one");

  constexpr explicit Pack(Ps... policies) : policies_(std::move(policies)...) {}

  template <class F>
  constexpr auto apply(F&& f) const {
    return std::apply(std::forward<F>(f), policies_);
  }
  // Calls f(policy) for each policy, in order.
  template <class F>
  constexpr void each(F&& f) const {
    std::apply([&](const Ps&... p) { (f(p), ...); }, policies_);
  }

  // Every policy's own checks, before anything is written.
  void check(const Shape& shape) const {
    each([&](const auto& p) {
      if constexpr (requires { p.check(shape); }) p.check(shape);
    });
  }

  float base_scale(Index dim) const {
    float scale = float(1.0 / std::sqrt(double(dim)));
    each([&](const auto& p) {
      if constexpr (requires { p.base_scale(); }) scale = p.base_scale();
    });
    return scale;
  }

  // Masks: all of them must agree.
  Visibility visibility(const Rows& rows, const Keys& keys) const {
    Visibility result = Visibility::all;
    each([&](const auto& p) {
      if constexpr (Mask<std::remove_cvref_t<decltype(p)>>) {
        if (result != Visibility::none) result = std::min(result, p.visibility(rows, keys));
      }
    });
    return result;
  }
  void see(const Rows& rows, const Keys& keys, LaneBits* lanes) const {
    std::fill_n(lanes, keys.count, rows.lanes());
    each([&](const auto& p) {
      if constexpr (Mask<std::remove_cvref_t<decltype(p)>>) {
        for (Index j = 0; j < keys.count; ++j) {
          lanes[j] &= lanes_of(p, rows, keys.at(j));
        }
      }
    });
  }

  // Encodings: their tables for one list of positions, and one vector through all of them.
  auto tables(List<Index> positions, Index dim) const {
    return std::apply(
        [&](const Ps&... p) { return std::make_tuple(table_of(p, positions, dim)...); }, policies_);
  }
  template <class Tables>
  void encode(Vector x, Index i, const Tables& tables) const {
    encode_each(x, i, tables, std::index_sequence_for<Ps...>{});
  }
  template <class Tables>
  void encode_adjoint(Vector x, Index i, const Tables& tables) const {
    if constexpr (kEncoded) encode_adjoint_from<sizeof...(Ps)>(x, i, tables);
  }

  // Scores. The leading factors are folded into the queries; forward skips them.
  float folded_factor(Query query) const {
    float factor = 1;
    each_score([&](auto i, const auto& p) {
      if constexpr (folded<i>()) factor *= p.factor(query);
    });
    return factor;
  }
  States begin(const Rows& rows) const {
    return std::apply([&](const Ps&... p) { return States{detail::state_of(p, rows)...}; },
                      policies_);
  }

  // Scores in written order; before(i) is called on the logits that the i-th policy receives.
  // Returns the offset that the softmax has still to add per lane, or nullptr. Hidden logits are
  // -inf on entry to every walking score and at the end.
  template <class Before = detail::Nothing>
  const float* forward(const Tile& tile, States& states, const Before& before = {}) const {
    bool hidden = true;
    return forward_from<0>(tile, states, hidden, before);
  }

  // Calls f(i, policy) for each score that forward runs or folds, in order.
  template <class F>
  void each_score(F&& f) const {
    each_score_at(f, std::index_sequence_for<Ps...>{});
  }
  // Whether policy i is a leading factor.
  template <std::size_t i>
  static constexpr bool folded() {
    return Factor<Policy<i>> && []<std::size_t... j>(std::index_sequence<j...>) {
      return ((!Score<Policy<j>> || Factor<Policy<j>>) && ...);
    }(std::make_index_sequence<i>{});
  }
  template <std::size_t i>
  using Policy = std::tuple_element_t<i, std::tuple<Ps...>>;
  template <std::size_t i>
  const Policy<i>& policy() const {
    return std::get<i>(policies_);
  }

  template <class F>
  static void each_carry(States& states, F&& f) {
    std::apply([&](auto&... s) { (carry_of(s, f), ...); }, states);
  }

  float prior(Query query) const {
    float logit = -INFINITY;
    each([&](const auto& p) {
      if constexpr (Prior<std::remove_cvref_t<decltype(p)>>) logit = p.prior(query);
    });
    return logit;
  }
  GateStream gate_stream() const {
    GateStream stream;
    each([&](const auto& p) {
      if constexpr (requires { p.gate_stream(); }) stream = p.gate_stream();
    });
    return stream;
  }
  View<const float> resumed_carry() const {
    View<const float> carry;
    each([&](const auto& p) {
      if constexpr (requires { p.resumed_carry(); }) carry = p.resumed_carry();
    });
    return carry;
  }

  static constexpr bool kPlaced = (Placement<Ps> || ...);
  // The placement, for a pack that has one.
  const auto& placement() const { return std::get<first_placement<0>()>(policies_); }

 private:
  template <std::size_t i>
  static constexpr std::size_t first_placement() {
    if constexpr (Placement<std::tuple_element_t<i, std::tuple<Ps...>>>) {
      return i;
    } else {
      return first_placement<i + 1>();
    }
  }
  template <class P>
  static auto table_of(const P& p, List<Index> positions, Index dim) {
    if constexpr (Encoding<P>) {
      return p.begin(positions, dim);
    } else {
      return detail::Nothing{};
    }
  }
  template <class Tables, std::size_t... i>
  void encode_each(Vector x, Index at, const Tables& tables, std::index_sequence<i...>) const {
    [[maybe_unused]] const auto one = [&](const auto& p, const auto& table) {
      if constexpr (Encoding<std::remove_cvref_t<decltype(p)>>) p.encode(x, at, table);
    };
    (one(std::get<i>(policies_), std::get<i>(tables)), ...);
  }
  template <std::size_t n, class Tables>   // the first n policies, last to first
  void encode_adjoint_from(Vector x, Index at, const Tables& tables) const {
    if constexpr (n > 0) {
      if constexpr (Encoding<Policy<n - 1>>) {
        std::get<n - 1>(policies_).encode_adjoint(x, at, std::get<n - 1>(tables));
      }
      encode_adjoint_from<n - 1>(x, at, tables);
    }
  }
  template <class State, class F>
  static void carry_of(State& state, F& f) {
    if constexpr (detail::kHasCarry<State>) {
      f(reinterpret_cast<float*>(&state.carry), detail::carry_size<State>());
    }
  }

  template <std::size_t i>
  static constexpr bool last_score() {
    if constexpr (i + 1 >= sizeof...(Ps)) {
      return true;
    } else {
      return !Score<Policy<i + 1>> && last_score<i + 1>();
    }
  }
  template <class F, std::size_t... i>
  void each_score_at(F& f, std::index_sequence<i...>) const {
    [[maybe_unused]] const auto one = [&](auto index, const auto& p) {
      if constexpr (Score<std::remove_cvref_t<decltype(p)>>) f(index, p);
    };
    (one(std::integral_constant<std::size_t, i>{}, std::get<i>(policies_)), ...);
  }

  template <std::size_t i, class Before>
  const float* forward_from(const Tile& tile, States& states, bool& hidden,
                            const Before& before) const {
    if constexpr (i == sizeof...(Ps)) {
      hide(tile, hidden);
      return nullptr;
    } else {
      using P = Policy<i>;
      using State = detail::StateOf<P>;
      if constexpr (Score<P> && !folded<i>()) {
        const P& score = std::get<i>(policies_);
        State& state = std::get<i>(states);
        if constexpr (detail::kHasCarry<State>) hide(tile, hidden);
        if constexpr (!std::is_same_v<Before, detail::Nothing>) before(i);
        if constexpr (StatefulScore<P>) {
          score.forward(tile, state);
        } else if constexpr (StatelessScore<P>) {
          score.forward(tile);
        } else {
          multiply(score, tile);
        }
        hidden = false;
        if constexpr (detail::kHasOffset<State>) {
          if constexpr (last_score<i>()) {
            hide(tile, hidden);
            return state.offset;
          } else {
            simd::forward().shift(tile.logits.data, tile.logits.keys, state.offset);
          }
        }
      }
      return forward_from<i + 1>(tile, states, hidden, before);
    }
  }
  static void hide(const Tile& tile, bool& hidden) {
    if (!hidden && tile.visible != nullptr) {
      simd::forward().hide(tile.logits.data, tile.visible, tile.logits.keys);
    }
    hidden = true;
  }
  template <class P>
  static void multiply(const P& p, const Tile& tile) {
    alignas(64) float factor[kRows] = {};
    for (Index lane = 0; lane < tile.rows.count; ++lane) {
      factor[lane] = p.factor(tile.rows.query(lane));
    }
    simd::forward().scale(tile.logits.data, tile.logits.keys, factor);
  }

  std::tuple<Ps...> policies_;
};

// Copies the policies; views inside them keep pointing at the caller's memory.
template <class... Ps>
constexpr auto pack(const Ps&... policies) {
  return Pack<Ps...>(policies...);
}
template <class... Ps>
constexpr const Pack<Ps...>& pack(const Pack<Ps...>& policies) {
  return policies;
}

// Where an older range of keys goes on counting: the carry that Into{.carry} gave for the newer
// range, [batch, heads, q_len, Pack::kCarry].
struct Resume {
  View<const float> carry;

  View<const float> resumed_carry() const { return carry; }
};

}  // namespace heed::inline HEED_ABI

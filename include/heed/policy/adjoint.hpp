// SPDX-License-Identifier: Apache-2.0
//
// The pack backwards: the scores of one tile are run forward once more, each one's input is kept,
// and the adjoints are taken in reverse order. A tile of scratch per score and one more; where a
// score walks, as many again for each of at most kKept tiles.

#pragma once

#include <tuple>
#include <vector>

#include "../core/buffer.hpp"
#include "pack.hpp"

namespace heed::inline HEED_ABI {
namespace detail {

template <class P>
auto zero_of(const P& policy, const Shape& shape) {
  if constexpr (requires { policy.zero(shape); }) {
    return policy.zero(shape);
  } else {
    return Nothing{};
  }
}
template <class P>
using GradientOf = decltype(zero_of(std::declval<const P&>(), std::declval<const Shape&>()));

}  // namespace detail

// d loss / d parameters of each policy, in their order; a policy without parameters has none.
template <class... Ps>
class PolicyGradients {
 public:
  static constexpr std::size_t kSize = sizeof...(Ps);   // policies

  PolicyGradients() = default;
  PolicyGradients(const Pack<Ps...>& pack, const Shape& shape)
      : at_(pack.apply([&](const Ps&... p) { return Tuple{detail::zero_of(p, shape)...}; })) {}

  // Of the i-th policy, or of the one of type P.
  template <std::size_t i>
  auto& at() {
    return std::get<i>(at_);
  }
  template <std::size_t i>
  const auto& at() const {
    return std::get<i>(at_);
  }
  template <class P>
  const auto& of() const {
    static_assert((int(std::is_same_v<P, Ps>) + ... + 0) == 1,
                  "heed: grad.of<P>() needs exactly one policy of type P among the arguments; use "
                  "grad.at<i>()");
    return std::get<index_of<P, 0>()>(at_);
  }

  PolicyGradients& operator+=(const PolicyGradients& other) {
    add(other, std::index_sequence_for<Ps...>{});
    return *this;
  }

 private:
  using Tuple = std::tuple<detail::GradientOf<Ps>...>;

  template <class P, std::size_t i>
  static constexpr std::size_t index_of() {
    if constexpr (std::is_same_v<P, std::tuple_element_t<i, std::tuple<Ps...>>>) {
      return i;
    } else {
      return index_of<P, i + 1>();
    }
  }
  template <std::size_t... i>
  void add(const PolicyGradients& other, std::index_sequence<i...>) {
    [[maybe_unused]] const auto one = [](auto& to, const auto& from) {
      if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(to)>, detail::Nothing>) to += from;
    };
    (one(std::get<i>(at_), std::get<i>(other.at_)), ...);
  }

  Tuple at_;
};

namespace detail {

template <class... Ps>
class Tape {
 public:
  using Policies = Pack<Ps...>;
  using Parameters = PolicyGradients<Ps...>;

  // Tiles whose logits may be kept from a first walk to the second, which saves a product and a
  // walk of the scores. Memory comes as they do: a gate walk is over after a few as a rule, and
  // never are there more than these, two megabytes per thread with one score.
  static constexpr Index kKept = 64;

  explicit Tape(const Policies& pack) : pack_(pack), kept_(1) {}

  // Runs the scores and keeps what each one received, in slot 0 or one of 1 ... kKept.
  const float* forward(const Tile& tile, typename Policies::States& states, Index slot = 0) {
    slot_ = slot;
    while (Index(kept_.size()) <= slot) kept_.emplace_back();
    const std::size_t count = std::size_t(tile.keys.count * kRows);
    const float* const offset = pack_.forward(tile, states, [&](std::size_t i) {
      std::copy_n(tile.logits.data, count, input(i));
    });
    if (slot != 0) {
      std::copy_n(tile.logits.data, count, input(sizeof...(Ps)));
      Kept& kept = kept_[std::size_t(slot)];
      kept.has_offset = offset != nullptr;
      if (offset != nullptr) std::copy_n(offset, kRows, kept.offset);
    }
    return offset;
  }
  // The same from a slot: the tile's logits after all scores, and the offset.
  const float* recall(const Tile& tile, Index slot) {
    slot_ = slot;
    std::copy_n(input(sizeof...(Ps)), tile.keys.count * kRows, tile.logits.data);
    const Kept& kept = kept_[std::size_t(slot)];
    return kept.has_offset ? kept.offset : nullptr;
  }

  // adjoint.logits: d loss / d logit after all scores -> before them. restore() puts the carries
  // back to what they were when the tile was entered.
  template <class Restore>
  void backward(const Tile& tile, Adjoint& adjoint, typename Policies::States& states,
                Parameters& gradients, const Restore& restore) {
    restore();
    backward_from<sizeof...(Ps)>(tile, adjoint, states, gradients);
  }

  // After the block's last tile. content[lane] = packed query . its adjoint from the keys alone:
  // what a folded factor feels, times the factor.
  void end(const Rows& rows, typename Policies::States& states, RowsAdjoint& adjoint,
           [[maybe_unused]] const double* content, Parameters& gradients) {
    end_each(rows, states, adjoint, content, gradients, std::index_sequence_for<Ps...>{});
  }
  void base_scale(double d, Parameters& gradients) {
    each(gradients, [&](const auto& p, auto& gradient) {
      if constexpr (requires { p.base_scale_adjoint(d, gradient); }) {
        p.base_scale_adjoint(d, gradient);
      }
    });
  }
  void prior(Query query, double d, Parameters& gradients) {
    each(gradients, [&](const auto& p, auto& gradient) {
      if constexpr (requires { p.prior_adjoint(query, d, gradient); }) {
        p.prior_adjoint(query, d, gradient);
      }
    });
  }

 private:
  static constexpr Index kScores = (Index{0} + ... + Index(Score<Ps>));

  template <std::size_t i>
  using Policy = typename Policies::template Policy<i>;
  template <std::size_t i>
  static constexpr bool kRuns = Score<Policy<i>> && !Policies::template folded<i>();

  // The i-th policy's input in the current slot, among those of the scores only.
  float* input(std::size_t i) {
    constexpr bool kIsScore[] = {Score<Ps>..., false};
    Index number = 0;
    for (std::size_t j = 0; j < i; ++j) number += kIsScore[j];
    return kept_[std::size_t(slot_)].inputs.data() + number * kKeys * kRows;
  }

  template <std::size_t n>   // the first n policies, last to first
  void backward_from(const Tile& tile, Adjoint& adjoint, typename Policies::States& states,
                     Parameters& gradients) {
    if constexpr (n > 0) {
      if constexpr (kRuns<n - 1>) {
        Logits received{input(n - 1), tile.keys.count};
        const Tile then{tile.rows, tile.keys, received, tile.visible, tile.reach, tile.spare};
        backward_of(pack_.template policy<n - 1>(), then, adjoint, std::get<n - 1>(states),
                    gradients.template at<n - 1>());
        // A formula's derivative at a hidden logit may be anything.
        if (tile.visible != nullptr) {
          simd::backward().erase(adjoint.logits.data, tile.visible, tile.keys.count);
        }
      }
      backward_from<n - 1>(tile, adjoint, states, gradients);
    }
  }

  template <class P, class State, class Gradient>
  static void backward_of(const P& p, const Tile& tile, Adjoint& adjoint, State& state,
                          Gradient& gradient) {
    if constexpr (requires { p.backward(tile, adjoint, state, gradient); }) {
      p.backward(tile, adjoint, state, gradient);
    } else if constexpr (requires { p.backward(tile, adjoint, state); }) {
      p.backward(tile, adjoint, state);
    } else if constexpr (requires { p.backward(tile, adjoint, gradient); }) {
      p.backward(tile, adjoint, gradient);
    } else if constexpr (requires { p.backward(tile, adjoint); }) {
      p.backward(tile, adjoint);
    } else {
      static_assert(Factor<P>, "heed: this score has no backward(tile, adjoint [, state] "
                               "[, gradient]); attend_backward needs one");
      factor_backward(p, tile, adjoint, gradient);
    }
  }
  template <class P, class Gradient>
  static void factor_backward(const P& p, const Tile& tile, Adjoint& adjoint, Gradient& gradient) {
    alignas(64) float factor[kRows] = {}, d_factor[kRows] = {};
    for (Index lane = 0; lane < tile.rows.count; ++lane) {
      factor[lane] = p.factor(tile.rows.query(lane));
    }
    simd::backward().scale_adjoint(adjoint.logits.data, tile.logits.data, tile.keys.count, factor,
                                   d_factor);
    for (Index lane = 0; lane < tile.rows.count; ++lane) {
      feel(p, tile.rows.query(lane), double{d_factor[lane]}, gradient);
    }
  }
  template <class P, class Gradient>
  static void feel(const P& p, Query query, double d, Gradient& gradient) {
    if constexpr (requires { p.factor_adjoint(query, d, gradient); }) {
      p.factor_adjoint(query, d, gradient);
    }
  }

  template <std::size_t... i>
  void end_each(const Rows& rows, typename Policies::States& states, RowsAdjoint& adjoint,
                [[maybe_unused]] const double* content, Parameters& gradients,
                std::index_sequence<i...>) {
    (end_one<i>(rows, std::get<i>(states), adjoint, content, gradients.template at<i>()), ...);
  }
  template <std::size_t i, class State, class Gradient>
  void end_one(const Rows& rows, State& state, RowsAdjoint& adjoint, const double* content,
               Gradient& gradient) {
    const auto& p = pack_.template policy<i>();
    if constexpr (Policies::template folded<i>()) {
      for (Index lane = 0; lane < rows.count; ++lane) {
        const Query query = rows.query(lane);
        feel(p, query, content[lane] / double(p.factor(query)), gradient);
      }
    } else if constexpr (requires { p.end(rows, state, adjoint, gradient); }) {
      p.end(rows, state, adjoint, gradient);
    } else if constexpr (requires { p.end(rows, state, adjoint); }) {
      p.end(rows, state, adjoint);
    }
  }
  template <class F>
  void each(Parameters& gradients, const F& f) {
    each_at(gradients, f, std::index_sequence_for<Ps...>{});
  }
  template <class F, std::size_t... i>
  void each_at(Parameters& gradients, const F& f, std::index_sequence<i...>) {
    (f(pack_.template policy<i>(), gradients.template at<i>()), ...);
  }

  // One tile: what each score received, and the logits after all of them.
  struct Kept {
    Buffer<float> inputs{(kScores + 1) * kKeys * kRows};
    alignas(64) float offset[kRows];
    bool has_offset = false;
  };

  const Policies& pack_;
  std::vector<Kept> kept_;   // [0] of the tile at hand, [slot] for later
  Index slot_ = 0;
};

}  // namespace detail
}  // namespace heed::inline HEED_ABI

// SPDX-License-Identifier: Apache-2.0
//
// What a policy may be, on one page. A policy is a plain struct with one or more groups of hooks;
// a group is all or nothing, and half a group is refused in words. Members named `check` are
// optional everywhere: `check(const Shape&)` throws std::invalid_argument before anything is
// written.
//
// For the backward pass a score has `backward`, and a policy with parameters has `zero` (its empty
// Gradient, with +=) and the hook that adds to it; see "The adjoint hooks" below.
//
//   group      hooks                                                 models
//   Mask       causal, visibility, visible [, lanes]                 causal, Window, Sinks, where, & | !
//   Encoding   begin, encode, encode_adjoint                         Rope
//   Score      forward [, begin] [, backward, zero, end]             Cope, Alibi, Relative, SoftCap ...
//   Factor     factor (a Score that multiplies a row by a number)    HeadScale, LogScale
//   Prior      prior                                                 SinkLogits
//   Placement  query_position, key_position, extents                 Positions, top_left, Lengths
//
// Order: encodings; product and 1/sqrt(dim); hide; scores as written; hide again. Logits are
// natural. Each score sees what the scores before it left.

#pragma once

#include <utility>
#include <vector>

#include "../core/view.hpp"
#include "../tile/block.hpp"

namespace heed {
inline namespace HEED_DATA_ABI {

// The shapes of one call, for a policy's own checks.
struct Shape {
  const char* function = "attend";
  Index batch = 0, heads = 0, kv_heads = 0, q_len = 0, kv_len = 0, dim = 0, v_dim = 0;
};

// Where CoPE takes its gates from: q.k (nothing to add), q.k' with separate keys, or q.v.
struct GateStream {
  Source source = Source::key;
  View<const float> keys{};   // for Source::gate: [batch, kv_heads, kv_len, dim]
};

// Valid rows and keys of one batch entry; both from the front.
struct Extents {
  Index q_len = 0, kv_len = 0;
};

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {

// A query or key vector, in place.
using Vector = Eigen::Map<Eigen::VectorXf>;

// Which pairs may meet.
//   visibility(rows, keys)  of a whole tile. Law: all => every pair visible, none => no pair is;
//                           `some` is always legal. Lanes at and beyond rows.count do not count.
//   visible(query, key)     of one pair.
//   causal                  true when no key later than its query is ever visible.
//   lanes(rows, key)        optional: bit i says whether lane i sees the key; default: visible.
// Masks that read positions work everywhere.
template <class P>
concept Mask = requires(const P& p, const Rows& rows, const Keys& keys, Query q, Key k) {
  { p.visibility(rows, keys) } -> std::same_as<Visibility>;
  { p.visible(q, k) } -> std::convertible_to<bool>;
  { std::bool_constant<P::causal>{} };
};

// Bit i: lane i sees the key. Bits at and beyond rows.count are 0.
template <Mask M>
LaneBits lanes_of(const M& mask, const Rows& rows, Key key) {
  if constexpr (requires { mask.lanes(rows, key); }) {
    return mask.lanes(rows, key) & rows.lanes();
  } else {
    LaneBits bits = 0;
    for (Index lane = 0; lane < rows.count; ++lane) {
      bits |= LaneBits{static_cast<bool>(mask.visible(rows.query(lane), key))} << lane;
    }
    return bits;
  }
}

// An affine map of one query or key vector before the product, chosen by its position.
//   begin(positions, dim)        once per call and batch entry: what all heads share.
//   encode(x, i, table)          x at positions[i], in place.
//   encode_adjoint(x, i, table)  its transpose.
template <class P>
concept Encoding = requires(const P& p, List<Index> positions, Index n, Vector x) {
  p.encode(x, n, p.begin(positions, n));
  p.encode_adjoint(x, n, p.begin(positions, n));
};

// A change of logits.
//   begin(rows)           the block's state; a score without state leaves it out.
//   forward(tile, state)  changes tile.logits; tiles come newest first.
// A state may have
//   carry    float[kRows * n]: flows from newer tiles to older ones; the score is `walking`.
//            Hidden logits are -inf whenever a walking score is called.
//   offset   float[kRows]: a constant that each logit of this tile still lacks, per lane; the
//            kernel adds it (for the last score inside the softmax, at no cost).
// A score may have gate_stream() -> GateStream: a second stream of keys, read by
// tile.keys.rows(Source::gate).
template <class P>
concept StatelessScore = requires(const P& p, const Tile& tile) { p.forward(tile); };
template <class P>
concept StatefulScore = requires(const P& p, const Tile& tile, const Rows& rows) {
  { p.begin(rows) };
  requires requires(decltype(p.begin(rows))& state) { p.forward(tile, state); };
};

// A score that multiplies every logit of a row by factor(query). Standing first, it is folded into
// the queries and costs nothing.
template <class P>
concept Factor = requires(const P& p, Query q) {
  { p.factor(q) } -> std::convertible_to<float>;
};

template <class P>
concept Score = StatelessScore<P> || StatefulScore<P> || Factor<P>;

// What the softmax starts from: one more outcome with this logit and no value, once per row.
template <class P>
concept Prior = requires(const P& p, Query q) {
  { p.prior(q) } -> std::convertible_to<float>;
};

// Where queries and keys stand; at most one. Positions ascend strictly within a batch entry. Rows
// and keys beyond the extents are absent: such rows give 0, such keys are never read.
template <class P>
concept Placement = requires(const P& p, const Shape& shape, Index i) {
  { p.query_position(shape, i, i) } -> std::convertible_to<Index>;   // batch, row
  { p.key_position(shape, i, i) } -> std::convertible_to<Index>;     // batch, index
  { p.extents(shape, i) } -> std::same_as<Extents>;
};

// The adjoint hooks, each beside the hook it undoes:
//
//   zero(shape) -> Gradient                        of the policy's own parameters; left out if none
//   backward(tile, adjoint [, state] [, gradient]) of forward: tile.logits is what forward
//       received, adjoint.logits goes from d loss / d output to d loss / d input. Tiles come
//       oldest first; a carry is as forward found it on entering the tile.
//   end(rows, state, rows_adjoint [, gradient])    after the block's last tile: what the state
//       collected, for the queries (of the packed ones) and the parameters
//   factor_adjoint(query, d, gradient)             of factor
//   prior_adjoint(query, d, gradient)              of prior
//   base_scale_adjoint(d, gradient)                of base_scale
//
// A state of a walking score may have settled() -> bool: no older tile changes its carry.

// d loss / d numbers of a policy that holds one number per query head (or just one).
struct NumbersGradient {
  std::vector<double> values;

  NumbersGradient() = default;
  explicit NumbersGradient(Index count) : values(std::size_t(count)) {}
  double& operator[](Index i) { return values[std::size_t(i)]; }
  NumbersGradient& operator+=(const NumbersGradient& other) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
    return *this;
  }
};

namespace detail {

// Any hook of a group, by name: what tells half a group from none.
template <class P>
inline constexpr bool kTouchesMask =
    requires { &P::visibility; } || requires { &P::visible; } || requires { P::causal; };
template <class P>
inline constexpr bool kTouchesEncoding =
    requires { &P::encode; } || requires { &P::encode_adjoint; };
template <class P>
inline constexpr bool kTouchesScore = requires { &P::forward; };
template <class P>
inline constexpr bool kTouchesAdjoint =
    requires { &P::backward; } || requires { &P::end; };
template <class P>
inline constexpr bool kTouchesPlacement = requires { &P::query_position; } ||
                                          requires { &P::key_position; } ||
                                          requires { &P::extents; };
template <class P>
inline constexpr bool kBaseScale = requires(const P& p) { p.base_scale(); };   // Scale
template <class P>
inline constexpr bool kResume = requires(const P& p) { p.resumed_carry(); };   // Resume

template <class P>
inline constexpr bool kIsPolicy = Mask<P> || Encoding<P> || Score<P> || Prior<P> ||
                                  Placement<P> || kBaseScale<P> || kResume<P>;

// One sentence for whatever is wrong with P, before the compiler finds its own words.
template <class P>
constexpr bool check_policy() {
  static_assert(!kTouchesMask<P> || Mask<P>,
                "heed: half a mask; a mask has visibility(const Rows&, const Keys&) -> Visibility, "
                "visible(Query, Key) -> bool and static constexpr bool causal");
  static_assert(!kTouchesEncoding<P> || Encoding<P>,
                "heed: half an encoding; an encoding has begin(List<Index>, Index dim), "
                "encode(Vector, Index, const Table&) and encode_adjoint of the same form");
  static_assert(!kTouchesScore<P> || Score<P>,
                "heed: half a score; a score has forward(const Tile&), or begin(const Rows&) and "
                "forward(const Tile&, State&)");
  static_assert(!kTouchesAdjoint<P> || kTouchesScore<P>,
                "heed: half a score; backward and end need a forward to be the adjoint of");
  static_assert(!kTouchesPlacement<P> || Placement<P>,
                "heed: half a placement; a placement has query_position(const Shape&, batch, row), "
                "key_position(const Shape&, batch, index) and extents(const Shape&, batch)");
  static_assert(kIsPolicy<P> || kTouchesMask<P> || kTouchesEncoding<P> || kTouchesScore<P> ||
                    kTouchesAdjoint<P> || kTouchesPlacement<P>,
                "heed: this argument is not a policy: it has no hook of a mask, encoding, score, "
                "prior or placement");
  return true;
}

}  // namespace detail
}  // namespace HEED_ABI
}  // namespace heed

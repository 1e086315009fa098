// SPDX-License-Identifier: Apache-2.0
//
// Policies with gradients that are put together at run time, as erased.hpp does for the forward
// pass: one slot holds one policy or none. So every policy and every pair of them goes through
// three packs in all.

#pragma once

#include <any>
#include <map>

#include "erased.hpp"
#include "gradients.hpp"

namespace support {

// A gradient of any kind, as the slot's policy makes it.
struct AnyGradient {
  std::any value;
  std::function<void(std::any&, const std::any&)> add;
  std::function<std::vector<float>(const std::any&)> read;

  AnyGradient& operator+=(const AnyGradient& other) {
    if (add) add(value, other.value);
    return *this;
  }
  std::vector<float> numbers() const { return read ? read(value) : std::vector<float>(); }

  template <class P>
  static AnyGradient zero(const P& policy, const heed::Shape& shape) {
    using G = heed::detail::GradientOf<P>;
    if constexpr (std::is_same_v<G, heed::detail::Nothing>) {
      return {};
    } else {
      return {policy.zero(shape),
              [](std::any& a, const std::any& b) {
                std::any_cast<G&>(a) += std::any_cast<const G&>(b);
              },
              [](const std::any& a) { return support::numbers(std::any_cast<const G&>(a)); }};
    }
  }
  template <class P>
  auto& of() {
    return std::any_cast<heed::detail::GradientOf<P>&>(value);
  }
};

// A factor, or 1.
struct OneFactor {
  std::function<float(heed::Query)> get;
  std::function<void(heed::Query, double, AnyGradient&)> back;
  std::function<AnyGradient(const heed::Shape&)> nothing;

  template <class P>
  void add(const P& p) {
    get = [p](heed::Query q) { return p.factor(q); };
    nothing = [p](const heed::Shape& s) { return AnyGradient::zero(p, s); };
    if constexpr (requires { &P::factor_adjoint; }) {
      back = [p](heed::Query q, double d, AnyGradient& g) { p.factor_adjoint(q, d, g.of<P>()); };
    }
  }
  float factor(heed::Query q) const { return get ? get(q) : 1.0f; }
  AnyGradient zero(const heed::Shape& s) const { return nothing ? nothing(s) : AnyGradient(); }
  void factor_adjoint(heed::Query q, double d, AnyGradient& g) const {
    if (back) back(q, d, g);
  }
};

// A score that does not walk, or none.
struct OneScore {
  using Forward = std::function<void(const heed::Tile&)>;
  struct State {
    Forward forward;
    std::function<void(const heed::Tile&, heed::Adjoint&, AnyGradient&)> backward;
    std::function<void(const heed::Rows&, heed::RowsAdjoint&, AnyGradient&)> end;
  };
  std::function<State(const heed::Rows&)> make;
  std::function<AnyGradient(const heed::Shape&)> nothing;
  std::function<void(const heed::Shape&)> checks;

  template <class P>
  void add(const P& p) {
    using Inner = heed::detail::StateOf<P>;
    nothing = [p](const heed::Shape& s) { return AnyGradient::zero(p, s); };
    checks = [p](const heed::Shape& s) {
      (void)p;
      if constexpr (requires { p.check(s); }) p.check(s);
    };
    make = [p](const heed::Rows& rows) {
      const auto inner = std::make_shared<Inner>(heed::detail::state_of(p, rows));
      State state;
      state.forward = [p, inner](const heed::Tile& tile) {
        if constexpr (heed::StatefulScore<P>) {
          p.forward(tile, *inner);
        } else {
          p.forward(tile);
        }
      };
      state.backward = [p, inner](const heed::Tile& t, heed::Adjoint& a, AnyGradient& g) {
        if constexpr (requires { p.backward(t, a, *inner, g.of<P>()); }) {
          p.backward(t, a, *inner, g.of<P>());
        } else if constexpr (requires { p.backward(t, a, g.of<P>()); }) {
          p.backward(t, a, g.of<P>());
        } else {
          p.backward(t, a);
        }
      };
      state.end = [p, inner](const heed::Rows& r, heed::RowsAdjoint& a, AnyGradient& g) {
        (void)p;
        if constexpr (requires { p.end(r, *inner, a, g.of<P>()); }) p.end(r, *inner, a, g.of<P>());
      };
      return state;
    };
  }
  void check(const heed::Shape& s) const {
    if (checks) checks(s);
  }
  AnyGradient zero(const heed::Shape& s) const { return nothing ? nothing(s) : AnyGradient(); }
  State begin(const heed::Rows& rows) const { return make ? make(rows) : State(); }
  void forward(const heed::Tile& tile, State& state) const {
    if (state.forward) state.forward(tile);
  }
  void backward(const heed::Tile& t, heed::Adjoint& a, State& state, AnyGradient& g) const {
    if (state.backward) state.backward(t, a, g);
  }
  void end(const heed::Rows& r, State& state, heed::RowsAdjoint& a, AnyGradient& g) const {
    if (state.end) state.end(r, a, g);
  }
};

// Learned sinks, or none.
struct OneSink {
  std::vector<float> logits;

  float prior(heed::Query q) const { return logits.empty() ? -INFINITY : logits[size(q.head)]; }
  heed::NumbersGradient zero(const heed::Shape& s) const {
    return heed::NumbersGradient(logits.empty() ? 0 : s.heads);
  }
  void prior_adjoint(heed::Query q, double d, heed::NumbersGradient& g) const { g[q.head] += d; }
};

enum class Masked { none, causal, window_sinks, narrow, not_where, documents, dense, causal_dense };
enum class Standing { bottom_right, top_left, positions, lengths };
enum class Turned { none, halves, neighbours };
enum class Scored {
  none, alibi, relative, relative_capped, t5, bias, soft_cap, bent, uneven, head_scale,
  cope, cope_b, cope_next, cope_keys, cope_values
};
inline constexpr Index kScored = 15, kWalking = 10;   // scores; the first that walks

struct Training {
  Extents shape;
  Filling filling = Filling::normal;
  std::uint64_t seed = 1;
  Masked mask = Masked::causal;
  Standing standing = Standing::bottom_right;
  Turned turned = Turned::none;
  bool scale = false, head_scale = false, log_scale = false, sinks = false;
  Scored first = Scored::none, cope = Scored::none, last = Scored::none;

  bool causal() const {
    return mask != Masked::none && mask != Masked::not_where && mask != Masked::dense;
  }
  std::string text() const {
    std::string s;
    for (const Index n : {shape.batch, shape.heads, shape.kv_heads, shape.q_len, shape.kv_len,
                          shape.dim, shape.v_dim, Index(filling), Index(seed), Index(mask),
                          Index(standing), Index(turned), Index(scale), Index(head_scale),
                          Index(log_scale), Index(sinks), Index(first), Index(cope), Index(last)}) {
      s += std::to_string(n) + ", ";
    }
    return s;
  }
  void settle() {
    shape.heads = std::max(shape.heads / shape.kv_heads, Index{1}) * shape.kv_heads;
    if (!causal()) cope = Scored::none;
    if (cope == Scored::cope_values) shape.v_dim = shape.dim;
    if (shape.dim < 2) turned = Turned::none;
    if (mask == Masked::documents && shape.kv_len == 0) mask = Masked::causal;
  }
};

// A training's policies, in the library's words and in the oracle's.
class Trained {
 public:
  explicit Trained(const Training& t)
      : training(t), world(t.shape, t.filling, t.seed), slice_(world.whole()), salt_(t.seed * 977) {
    c = world.oracle_case();
    const auto causal = [this](const auto& p) { masks_.causal.add(p); };
    const auto any = [this](const auto& p) { masks_.mask.add(p); };
    switch (t.mask) {
      case Masked::none: break;
      case Masked::causal: add<Causal>(causal); break;
      case Masked::window_sinks: add<WindowSinks>(causal); break;
      case Masked::narrow: add<NarrowWindow>(causal); break;
      case Masked::not_where: add<NotWhere>(any); break;
      case Masked::documents: add<Documents>(causal); break;
      case Masked::dense: add<Dense<false>>(any); break;
      case Masked::causal_dense: add<Dense<true>>(causal); break;
    }
    const auto place = [this](const auto& p) { masks_.placement.set(p); };
    if (t.standing == Standing::top_left) add<TopLeft>(place);
    if (t.standing == Standing::positions) add<Placed>(place);
    if (t.standing == Standing::lengths) add<Padded>(place);
    const auto encode = [this](const auto& p) { masks_.encoding.add(p); };
    if (t.turned == Turned::halves) add<Roped<true>>(encode);
    if (t.turned == Turned::neighbours) add<Roped<false>>(encode);
    scaled_.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(t.shape.dim)));
    Random random(t.seed * 31);
    if (t.scale) scaled_.prepare(world, random);
    scaled_.describe(c);
    if (t.head_scale) learn(4, [&] { add<HeadScaled>([this](const auto& p) { factor_.add(p); }); });
    if (t.log_scale) learn(5, [&] { add<LogScaled>([this](const auto& p) { log_.add(p); }); });
    add_score(t.first, 6, first_);
    const bool walks = t.cope != Scored::none;
    learn(7, [&] {
      const auto set = [this](const auto& p) { cope_ = p; };
      if (t.cope == Scored::cope) add<Coped<false, true>>(set);
      if (t.cope == Scored::cope_b) add<Coped<true, true>>(set);
      if (t.cope == Scored::cope_next) add<Coped<true, false>>(set);
      if (t.cope == Scored::cope_keys) add<Coped<false, true, oracle::Cope::Gates::keys>>(set);
      if (t.cope == Scored::cope_values) add<Coped<true, true, oracle::Cope::Gates::values>>(set);
    });
    add_score(t.last, walks ? 8 : 7, last_);
    if (t.sinks) {
      Sunk sunk;
      sunk.prepare(world, random);
      sunk.describe(c);
      sink_.logits = sunk.logits;
    }
  }
  Trained(const Trained&) = delete;

  // f(pack)
  template <class F>
  auto with(const F& f) const {
    const heed::Scale scale = scaled_.policy(slice_);
    if (cope_) {
      return f(heed::pack(masks_.causal, masks_.placement, masks_.encoding, scale, factor_, log_,
                          first_, *cope_, last_, sink_));
    }
    if (training.causal()) {
      return f(heed::pack(masks_.causal, masks_.placement, masks_.encoding, scale, factor_, log_,
                          first_, last_, sink_));
    }
    return f(heed::pack(masks_.mask, masks_.placement, masks_.encoding, scale, factor_, log_,
                        first_, last_, sink_));
  }
  // judge(name, found numbers, oracle's list by `pick`) for every parameter.
  template <class Parameters, class F>
  void each_parameter(const Parameters& p, const F& f) const {
    for (const auto& pair : learned_) {
      const Index at = pair.first;
      const auto read = [&]<std::size_t... i>(std::index_sequence<i...>) {
        std::vector<float> result;
        ((Index(i) == at ? void(result = read_one(p.template at<i>())) : void()), ...);
        return result;
      };
      f(pair.second, read(std::make_index_sequence<Parameters::kSize>{}));
    }
  }
  Verdict check(const Upstream& dout, Workers workers = {}) const {
    const Expected expected(c, dout);
    Judge judge(expected);
    with([&](const auto& pack) {
      const auto found = felt(world, floats(dout.data), pack, workers);
      judge.operands(found, expected);
      each_parameter(found.parameters, [&](std::size_t score, const std::vector<float>& list) {
        if (std::holds_alternative<oracle::Bias>(c.scores[score])) {
          const Biased& bias = *biases_.at(score);
          judge.score(score, list, expected, world, bias.per_batch ? world.shape.batch : 1,
                      bias.heads());
        } else {
          judge.score(score, list, expected, world);
        }
      });
      judge("scale", numbers(found.parameters.template at<3>()), {expected.right.scale},
            {expected.size.scale}, {expected.naive.scale});
      constexpr std::size_t sink = decltype(found.parameters)::kSize - 1;
      judge("sinks", numbers(found.parameters.template at<sink>()), expected.right.sinks,
            expected.size.sinks, expected.naive.sinks);
    });
    return judge.verdict;
  }

  const Training training;
  const World world;
  oracle::Case c;

 private:
  static std::vector<float> read_one(const AnyGradient& g) { return g.numbers(); }
  template <class G>
  static std::vector<float> read_one(const G& g) {
    return numbers(g);
  }
  template <class Part, class Join>
  void add(const Join& join) {
    auto part = std::make_shared<Part>();
    Random random(salt_++);
    part->prepare(world, random);
    part->describe(c);
    join(part->policy(slice_));
    if constexpr (std::is_same_v<Part, Biased>) biases_[c.scores.size() - 1] = part;
    alive_.push_back(part);
  }
  // Notes that the score that `make` adds is the pack's policy number `at`.
  template <class Make>
  void learn(Index at, const Make& make) {
    const std::size_t before = c.scores.size();
    make();
    if (c.scores.size() > before && !std::holds_alternative<oracle::Pointwise>(c.scores[before]) &&
        !std::holds_alternative<oracle::SoftCap>(c.scores[before]) &&
        !(at == 5)) {   // LogScale has no parameters
      learned_.push_back({at, before});
    }
  }
  void add_score(Scored kind, Index at, OneScore& to) {
    const auto join = [&to](const auto& p) { to.add(p); };
    learn(at, [&] {
      switch (kind) {
        case Scored::alibi: return add<AlibiSloped>(join);
        case Scored::relative: return add<Relatived<false>>(join);
        case Scored::relative_capped: return add<Relatived<true>>(join);
        case Scored::t5: return add<T5Biased>(join);
        case Scored::bias: return add<Biased>(join);
        case Scored::soft_cap: return add<Capped>(join);
        case Scored::bent: return add<Bent>(join);
        case Scored::uneven: return add<Uneven>(join);
        default: return;
      }
    });
  }

  Slice slice_;
  std::uint64_t salt_;
  std::vector<std::shared_ptr<Part>> alive_;
  std::map<std::size_t, std::shared_ptr<Biased>> biases_;   // by number in the oracle
  std::vector<std::pair<Index, std::size_t>> learned_;   // number in the pack, number in the oracle
  Erased masks_;
  Scaled scaled_;
  OneFactor factor_, log_;
  OneScore first_, last_;
  std::optional<heed::Cope> cope_;
  OneSink sink_;
};

}  // namespace support

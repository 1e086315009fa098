// SPDX-License-Identifier: Apache-2.0
//
// Gradients of the kernel beside those of the oracle, and how they are judged: element by element,
//
//   err(kernel) <= 3 err(naive float32) + 4 eps (sum of the terms' sizes) (1 + L/8)
//
// with the largest error of the naive float32 gradient of the same tensor, and L as in compare.hpp.

#pragma once

#include <heed/kernel/attend_backward.hpp>

#include "oracle_gradient.hpp"
#include "policies.hpp"

namespace support {

using Upstream = oracle::Array<double>;

inline Upstream upstream(const Extents& e, Random& random) {
  Upstream dout({e.batch, e.heads, e.q_len, e.v_dim});
  for (double& x : dout.data) x = static_cast<double>(static_cast<float>(random.normal()));
  return dout;
}
inline std::vector<float> floats(const std::vector<double>& x) {
  std::vector<float> to;
  for (const double a : x) to.push_back(static_cast<float>(a));
  return to;
}

// What the kernel gives, packed; Parameters is the pack's PolicyGradients.
template <class Parameters>
struct Felt {
  std::vector<float> q, k, v, gate_keys;
  Parameters parameters;
};

// The forward pass and the gradients, into memory full of NaN between fences.
template <class Pack>
auto felt(const World& world, const std::vector<float>& dout, const Pack& pack,
          Workers workers = {}) {
  const Extents& e = world.shape;
  const Slice whole = world.whole();
  const Outputs forward = run(world, whole, pack, workers);
  std::vector<float> out = forward.out, lse = forward.lse;
  const auto gates = pack.gate_stream();
  const Index keys = e.batch * e.kv_heads * e.kv_len;
  Fenced q(e.batch * e.heads * e.q_len * e.dim), k(keys * e.dim), v(keys * e.v_dim);
  Fenced gate(gates.source == heed::Source::gate ? keys * e.dim : 0);
  const std::array<Index, 4> rows{e.batch, e.heads, e.q_len, e.v_dim};
  heed::GradientsInto into;
  into.q = {q.data(), {e.batch, e.heads, e.q_len, e.dim}};
  into.k = {k.data(), {e.batch, e.kv_heads, e.kv_len, e.dim}};
  into.v = {v.data(), {e.batch, e.kv_heads, e.kv_len, e.v_dim}};
  if (gates.source == heed::Source::gate) {
    into.gate_keys = {gate.data(), {e.batch, e.kv_heads, e.kv_len, e.dim}};
  }
  auto parameters = heed::attend_backward(
      workers, into, world.q(whole), world.k(whole), world.v(whole),
      heed::View<const float>(out.data(), rows),
      heed::RowView(lse.data(), {e.batch, e.heads, e.q_len}),
      heed::View<const float>(dout.data(), rows), pack);
  return Felt<decltype(parameters)>{q.take(), k.take(), v.take(), gate.take(),
                                    std::move(parameters)};
}

// A policy's gradient as a list, in the oracle's order.
inline std::vector<float> numbers(const heed::detail::Nothing&) { return {}; }
inline std::vector<float> numbers(const heed::NumbersGradient& g) { return floats(g.values); }
inline std::vector<float> numbers(const heed::BiasGradient& g) { return g.values(); }
inline std::vector<float> numbers(const heed::TableGradient& g) {
  std::vector<float> all;
  for (Index t = 0; t < g.tables(); ++t) {
    const auto table = g.table(t);
    for (Index n = 0; n < table.rows(); ++n) {
      for (Index d = 0; d < table.cols(); ++d) all.push_back(table(n, d));
    }
  }
  return all;
}

// The oracle knows a bias per pair; one that is shared collects.
template <class T>
std::vector<T> shared(const std::vector<T>& pairs, const World& world, Index batches, Index heads) {
  const Extents& e = world.shape;
  const Index slice = e.q_len * e.kv_len;
  std::vector<T> sum(size(batches * heads * slice));
  for (Index n = 0; n < e.batch * e.heads * slice; ++n) {
    const Index b = n / slice / e.heads, h = n / slice % e.heads;
    sum[size(((batches == 1 ? 0 : b) * heads + (heads == 1 ? 0 : h)) * slice + n % slice)] +=
        pairs[size(n)];
  }
  return sum;
}

// The oracle's three gradients of one case.
struct Expected {
  oracle::Gradient<double> right, size;
  oracle::Gradient<float> naive;
  double growth = 1;

  Expected(const oracle::Case& c, const Upstream& dout)
      : right(oracle::backward<double>(c, dout)),
        size(oracle::backward<double>(c, dout, oracle::Terms::absolute)),
        naive(oracle::backward<float>(c, dout)),
        growth(1 + oracle::attend<double>(c).magnitude / 8) {}
};

class Judge {
 public:
  explicit Judge(const Expected& expected) : growth_(expected.growth) {}

  void operator()(const std::string& what, const std::vector<float>& found,
                  const std::vector<double>& right, const std::vector<double>& sizes,
                  const std::vector<float>& naive) {
    if (found.size() != right.size()) {
      verdict = {std::numeric_limits<double>::infinity(), what + " has another size"};
      return;
    }
    double slack = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      slack = std::max(slack, std::abs(static_cast<double>(naive[i]) - right[i]));
    }
    for (std::size_t i = 0; i < right.size(); ++i) {
      const double f = static_cast<double>(found[i]);
      if (f == right[i]) continue;
      const double allowed = 3 * slack + 4 * kEps * sizes[i] * growth_ + 1e-37;
      const double ratio = std::abs(f - right[i]) / allowed;
      if (ratio <= verdict.ratio) continue;
      char text[200];
      std::snprintf(text, sizeof text, "%s[%zu] is %.9g, the oracle says %.9g (naive %.9g)",
                    what.c_str(), i, f, right[i], static_cast<double>(naive[i]));
      verdict = {std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio, text};
    }
  }
  template <class Parameters>
  void operands(const Felt<Parameters>& found, const Expected& e) {
    (*this)("dq", found.q, e.right.q.data, e.size.q.data, e.naive.q.data);
    (*this)("dk", found.k, e.right.k.data, e.size.k.data, e.naive.k.data);
    (*this)("dv", found.v, e.right.v.data, e.size.v.data, e.naive.v.data);
    (*this)("d gate keys", found.gate_keys, e.right.gate_keys.data, e.size.gate_keys.data,
            e.naive.gate_keys.data);
  }
  void score(std::size_t n, std::vector<float> found, const Expected& e, const World& world,
             Index bias_batches = 0, Index bias_heads = 0) {
    const auto list = [&](const auto& from) {
      return bias_batches == 0 ? from.scores[n]
                               : shared(from.scores[n], world, bias_batches, bias_heads);
    };
    (*this)("parameters of score " + std::to_string(n), found, list(e.right), list(e.size),
            list(e.naive));
  }

  Verdict verdict;

 private:
  double growth_;
};

// Every gradient of a pack whose scores stand in the oracle's order.
template <class Pack>
Verdict judge_gradients(const World& world, const oracle::Case& c, const Upstream& dout,
                        const Pack& pack, Workers workers = {}) {
  const auto found = felt(world, floats(dout.data), pack, workers);
  const Expected expected(c, dout);
  Judge judge(expected);
  judge.operands(found, expected);
  std::size_t next = 0;
  const auto one = [&](const auto& policy, const auto& gradient) {
    using P = std::remove_cvref_t<decltype(policy)>;
    using G = std::remove_cvref_t<decltype(gradient)>;
    if constexpr (heed::Score<P>) {
      const std::size_t n = next++;
      if constexpr (std::is_same_v<G, heed::BiasGradient>) {
        judge.score(n, numbers(gradient), expected, world, gradient.extent()[0],
                    gradient.extent()[1]);
      } else if constexpr (!std::is_same_v<G, heed::detail::Nothing>) {
        judge.score(n, numbers(gradient), expected, world);
      }
    } else if constexpr (heed::Prior<P>) {
      judge("sinks", numbers(gradient), expected.right.sinks, expected.size.sinks,
            expected.naive.sinks);
    } else if constexpr (std::is_same_v<P, heed::Scale>) {
      judge("scale", numbers(gradient), {expected.right.scale}, {expected.size.scale},
            {expected.naive.scale});
    }
  };
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (one(pack.template policy<i>(), found.parameters.template at<i>()), ...);
  }(std::make_index_sequence<decltype(found.parameters)::kSize>{});
  return judge.verdict;
}

// Whether a position of CoPE stands so near an integer that float and double may disagree about the
// side, where the derivative jumps. On it is no such case where all gates of the row are exactly a
// half (or 0 or 1): those sums have no rounding.
inline bool at_a_jump(const oracle::Case& c) {
  const auto right = oracle::attend<double>(c);
  const std::size_t keys = size(c.k.extent[2]);
  for (std::size_t row = 0; row < right.positions.data.size(); row += keys) {
    bool near = false, halves = true;
    for (std::size_t i = row; i < row + keys; ++i) {
      const double p = right.positions.data[i];
      if (right.visible.data[i] == 0) continue;
      near = near || std::abs(p - std::round(p)) <= 1e-5 * (1 + p);
      halves = halves && 2 * p == std::round(2 * p);
    }
    if (near && !halves) return true;
  }
  return false;
}

template <class P>
::testing::AssertionResult same_gradient_bits(const Felt<P>& a, const Felt<P>& b) {
  if (auto r = same_bits(a.q, b.q); !r) return r << " (dq)";
  if (auto r = same_bits(a.k, b.k); !r) return r << " (dk)";
  if (auto r = same_bits(a.v, b.v); !r) return r << " (dv)";
  if (auto r = same_bits(a.gate_keys, b.gate_keys); !r) return r << " (d gate keys)";
  return ::testing::AssertionSuccess();
}
// And of every policy's parameters.
template <std::size_t... i, class P>
::testing::AssertionResult same_parameters(const P& a, const P& b, std::index_sequence<i...>) {
  ::testing::AssertionResult result = ::testing::AssertionSuccess();
  const auto one = [&](const auto& x, const auto& y) {
    if (!result) return;
    result = same_bits(numbers(x), numbers(y));
  };
  (one(a.template at<i>(), b.template at<i>()), ...);
  return result;
}

}  // namespace support

// SPDX-License-Identifier: Apache-2.0
//
// Checks for one's own policies, without a test framework: is the gradient the derivative?
//
//   heed::testing::expect_gradient(heed::pack(heed::causal, Mine{}));       throws if it is not
//   heed::testing::Report r = heed::testing::check_gradient(policy);        r.ok, r.text
//   check_gradient(parameters, make, read)                                  of parameters too
//
// The loss is dout . out for random numbers. Along random directions of q, of k, of v and of the
// parameters, the gradient's product with the direction is compared with a difference quotient of
// the forward pass in float. A formula may have kinks: a few directions may step over one.

#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernel/attend_backward.hpp"

namespace heed::inline HEED_ABI::testing {

// The call that is checked. Three blocks of rows and two tiles of keys, grouped heads.
struct GradientCase {
  Index batch = 1, heads = 2, kv_heads = 1;
  Index q_len = 70, kv_len = 75;   // 64 rows and more are cut into blocks per head, fewer stacked
  Index dim = 8, v_dim = 8;
  Index directions = 12;           // per operand
  double step = 0x1p-9;            // of the differences, along directions of normal numbers
  double tolerance = 0.01;         // of the derivatives' own size
  std::uint64_t seed = 1;
};

struct Report {
  bool ok = true;
  std::string text;   // a sentence either way
  double worst = 0;   // largest deviation that was not forgiven, as a share of what is allowed
};

namespace detail {

// splitmix64, and sums of twelve uniform numbers: the same on every machine.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  float operator()() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) {
      std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      sum += static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
    }
    return static_cast<float>(sum);
  }
  std::vector<float> many(Index n) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& a : x) a = (*this)();
    return x;
  }

 private:
  std::uint64_t state_;
};

class GradientCheck {
 public:
  explicit GradientCheck(const GradientCase& c)
      : case_(c),
        numbers_(c.seed),
        q_(numbers_.many(c.batch * c.heads * c.q_len * c.dim)),
        k_(numbers_.many(c.batch * c.kv_heads * c.kv_len * c.dim)),
        v_(numbers_.many(c.batch * c.kv_heads * c.kv_len * c.v_dim)),
        dout_(numbers_.many(c.batch * c.heads * c.q_len * c.v_dim)),
        out_(dout_.size()),
        lse_(static_cast<std::size_t>(c.batch * c.heads * c.q_len)) {}

  // make(parameters) -> policy or pack; read(policies' gradients) -> d loss / d parameters.
  template <class Make, class Read>
  Report run(std::vector<float> parameters, const Make& make, const Read& read) {
    std::vector<float> dq(q_.size()), dk(k_.size()), dv(v_.size()), gate_keys;
    std::vector<float> d_parameters;
    {
      const auto& policy = make(parameters);
      const auto& all = pack(policy);
      forward(all);
      GradientsInto into;
      into.q = {dq.data(), query_extent(case_.dim)};
      into.k = {dk.data(), key_extent(case_.dim)};
      into.v = {dv.data(), key_extent(case_.v_dim)};
      if (all.gate_stream().source == Source::gate) {
        gate_keys.resize(k_.size());
        into.gate_keys = {gate_keys.data(), key_extent(case_.dim)};
      }
      d_parameters = read(attend_backward(into, q(), k(), v(), View<const float>(out()), lse(),
                                          View<const float>(dout_.data(), out().extent), all));
    }
    const auto loss = [&] {
      forward(pack(make(parameters)));
      double sum = 0;
      for (std::size_t i = 0; i < out_.size(); ++i) sum += double{dout_[i]} * double{out_[i]};
      return sum;
    };
    loss();
    noise_ = 0;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      const double term = double{dout_[i]} * double{out_[i]};
      noise_ += term * term;
    }
    noise_ = 0x1p-20 * std::sqrt(noise_) / case_.step;
    compare("q", q_, dq, loss);
    compare("k", k_, dk, loss);
    compare("v", v_, dv, loss);
    if (!parameters.empty() || !d_parameters.empty()) {
      compare("the parameters", parameters, d_parameters, loss);
    }
    if (report_.ok) {
      report_.text = "heed::testing: the gradients agree with differences of the forward pass; " +
                     contract::text(case_.directions) + " directions each, the worst at " +
                     contract::text(report_.worst) + " of what is allowed";
    }
    return report_;
  }

 private:
  std::array<Index, 4> query_extent(Index width) const {
    return {case_.batch, case_.heads, case_.q_len, width};
  }
  std::array<Index, 4> key_extent(Index width) const {
    return {case_.batch, case_.kv_heads, case_.kv_len, width};
  }
  View<const float> q() const { return {q_.data(), query_extent(case_.dim)}; }
  View<const float> k() const { return {k_.data(), key_extent(case_.dim)}; }
  View<const float> v() const { return {v_.data(), key_extent(case_.v_dim)}; }
  View<float> out() { return {out_.data(), query_extent(case_.v_dim)}; }
  RowView lse() { return {lse_.data(), {case_.batch, case_.heads, case_.q_len}}; }

  template <class P>
  void forward(const P& all) {
    Into into;
    into.out = out();
    into.lse = lse();
    attend(into, q(), k(), v(), all);
  }

  template <class Loss>
  void compare(const std::string& what, std::vector<float>& x, const std::vector<float>& gradient,
               const Loss& loss) {
    if (!report_.ok) return;
    if (x.size() != gradient.size()) {
      return fail(what + " has " + contract::text(Index(x.size())) + " numbers and its gradient " +
                  contract::text(Index(gradient.size())));
    }
    const std::vector<float> before = x;
    std::vector<double> says, is;
    for (Index n = 0; n < case_.directions; ++n) {
      const std::vector<float> along = numbers_.many(Index(x.size()));
      // Of the numbers as they are rounded, so that the quotient has no error from that.
      double product = 0;
      const auto move = [&](double by) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] = static_cast<float>(double{before[i]} + by * double{along[i]});
        }
      };
      move(case_.step);
      const std::vector<float> above = x;
      const double high = loss();
      move(-case_.step);
      const double low = loss();
      for (std::size_t i = 0; i < x.size(); ++i) {
        product += double{gradient[i]} * (double{above[i]} - double{x[i]});
      }
      says.push_back(product / (2 * case_.step));
      is.push_back((high - low) / (2 * case_.step));
    }
    x = before;
    judge(what, says, is);
  }

  // A kink may spoil one direction in three.
  void judge(const std::string& what, const std::vector<double>& says,
             const std::vector<double>& is) {
    double square = 0;
    for (const double d : is) square += d * d;
    const double size = std::sqrt(square / double(std::max<std::size_t>(is.size(), 1)));
    const double allowed = case_.tolerance * size + noise_;
    std::vector<std::pair<double, std::size_t>> deviations;
    for (std::size_t n = 0; n < is.size(); ++n) {
      const double deviation = std::abs(says[n] - is[n]) / allowed;
      deviations.push_back({std::isfinite(deviation) ? deviation : double{INFINITY}, n});
    }
    std::sort(deviations.begin(), deviations.end());
    if (deviations.empty()) return;
    const auto& [worst, at] = deviations[(deviations.size() - 1) * 2 / 3];
    report_.worst = std::max(report_.worst, worst);
    if (worst <= 1) return;
    fail("the gradient of " + what + " is not the derivative: along a random direction it says " +
         contract::text(says[at]) + ", the forward pass says " + contract::text(is[at]) +
         " (within " + contract::text(allowed) + ")");
  }
  void fail(const std::string& sentence) {
    report_.ok = false;
    report_.text = "heed::testing: " + sentence;
  }

  const GradientCase case_;
  Numbers numbers_;
  std::vector<float> q_, k_, v_, dout_, out_, lse_;
  double noise_ = 0;   // of a difference quotient in float
  Report report_;
};

}  // namespace detail

// A policy or a pack: the gradients of q, k and v. A policy that walks needs its mask beside it.
template <class P>
Report check_gradient(const P& policy, const GradientCase& c = {}) {
  return detail::GradientCheck(c).run(
      {}, [&](const std::vector<float>&) -> const P& { return policy; },
      [](const auto&) { return std::vector<float>(); });
}

// And of the policy's own parameters. make(parameters) gives the policy or pack that has them (its
// views may point into that vector); read(gradients) gives d loss / d parameters in their order,
// from gradients.template of<Mine>() or gradients.template at<i>().
template <class Make, class Read>
Report check_gradient(const std::vector<float>& parameters, const Make& make, const Read& read,
                      const GradientCase& c = {}) {
  return detail::GradientCheck(c).run(parameters, make, read);
}

// The same, and std::runtime_error with the report's sentence where the check fails.
template <class... Arguments>
void expect_gradient(const Arguments&... arguments) {
  const Report report = check_gradient(arguments...);
  if (report.ok) return;
#if defined(__cpp_exceptions)
  throw std::runtime_error(report.text);
#else
  std::fputs((report.text + "\n").c_str(), stderr);
  std::abort();
#endif
}

}  // namespace heed::inline HEED_ABI::testing

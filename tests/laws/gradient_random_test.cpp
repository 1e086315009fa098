// SPDX-License-Identifier: Apache-2.0
//
// Law 4. First the oracle's own gradient against differences of the oracle; then the kernel's
// against the oracle's, number by number: every score alone, every pair of scores, every mask; then
// random configurations of everything at once, until 2,000 random directional derivatives have been
// compared with differences too (50,000 with HEED_RELEASE=1).

#include "support/erased_gradient.hpp"

namespace support {
namespace {

// The kernel's gradient agrees with the oracle's, number by number.
void expect_agreement(const Training& given) {
  Training t = given;
  t.settle();
  const Trained trained(t);
  if (at_a_jump(trained.c)) return;
  Random random(t.seed + 5);
  const Verdict verdict = trained.check(upstream(t.shape, random));
  Worst::instance().note("law 4", verdict.ratio, t.text());
  ASSERT_TRUE(verdict.passed()) << "ratio " << verdict.ratio << ": " << verdict.where << "\n"
                                << t.text();
}

// The kernel's gradient along a direction. Leaves out biases, which may be shared.
double kernel_product(const Trained& trained, const Upstream& dout,
                      const oracle::Gradient<double>& along) {
  double product = 0;
  const auto add = [&](const std::vector<float>& g, const std::vector<double>& u) {
    for (std::size_t i = 0; i < u.size(); ++i) product += static_cast<double>(g[i]) * u[i];
  };
  trained.with([&](const auto& pack) {
    const auto found = felt(trained.world, floats(dout.data), pack);
    add(found.q, along.q.data);
    add(found.k, along.k.data);
    add(found.v, along.v.data);
    add(found.gate_keys, along.gate_keys.data);
    trained.each_parameter(found.parameters, [&](std::size_t n, const std::vector<float>& g) {
      if (!std::holds_alternative<oracle::Bias>(trained.c.scores[n])) add(g, along.scores[n]);
    });
    add(numbers(found.parameters.template at<3>()), {along.scale});
    constexpr std::size_t sink = decltype(found.parameters)::kSize - 1;
    add(numbers(found.parameters.template at<sink>()), along.sinks);
  });
  return product;
}

// The oracle's gradient along a random direction, and the kernel's, against differences.
void expect_derivative(const Training& given, Index& checked) {
  Training t = given;
  t.settle();
  const Trained trained(t);
  Random random(t.seed + 7);
  const Upstream dout = upstream(t.shape, random);
  auto gradient = oracle::backward<double>(trained.c, dout);
  auto along = oracle::zero_gradient<double>(trained.c);
  double product = 0, size = 0;
  const auto list = [&](const std::vector<double>& g, std::vector<double>& u) {
    for (std::size_t i = 0; i < u.size(); ++i) {
      u[i] = random.normal();
      product += g[i] * u[i];
      size += std::abs(g[i] * u[i]);
    }
  };
  list(gradient.q.data, along.q.data);
  list(gradient.k.data, along.k.data);
  list(gradient.v.data, along.v.data);
  list(gradient.gate_keys.data, along.gate_keys.data);
  list(gradient.sinks, along.sinks);
  for (std::size_t n = 0; n < along.scores.size(); ++n) {
    if (std::holds_alternative<oracle::Factor>(trained.c.scores[n]) && t.log_scale) continue;
    if (std::holds_alternative<oracle::Bias>(trained.c.scores[n])) continue;
    list(gradient.scores[n], along.scores[n]);
  }
  along.scale = random.normal();
  product += gradient.scale * along.scale;
  // A difference must not step over an integer position.
  for (const double h : {-2e-5, 0.0, 2e-5}) {
    const auto a = oracle::attend<double>(trained.c).positions.data;
    const auto b = oracle::attend<double>(oracle::moved(trained.c, along, h)).positions.data;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::floor(a[i]) != std::floor(b[i]) || a[i] == std::round(a[i])) {
        if (a[i] != 0) return;
      }
    }
  }
  ++checked;
  const double difference = oracle::derivative(trained.c, dout, along);
  // The user's formula bends at 0, where a quotient is off by its step.
  const bool bends = t.first == Scored::bent || t.last == Scored::bent;
  ASSERT_NEAR(product, difference, (bends ? 1e-5 : 1e-7) * (1 + size)) << t.text();
  ASSERT_NEAR(kernel_product(trained, dout, along), product, 1e-5 * (1 + size)) << t.text();
}

const Extents kSmall[] = {{2, 4, 2, 5, 7, 5, 3}, {1, 3, 1, 9, 9, 4, 4}, {1, 2, 2, 6, 4, 3, 3}};

TEST(GradientOfTheOracle, IsItsDerivative) {
  Index checked = 0;
  std::uint64_t seed = 1;
  for (const Extents& e : kSmall) {
    for (Index n = 0; n < kScored; ++n) {
      for (const bool more : {false, true}) {
        Training t;
        t.shape = e;
        t.seed = ++seed;
        t.head_scale = more || Scored(n) == Scored::head_scale;
        t.scale = t.log_scale = t.sinks = more;
        t.turned = more ? Turned::halves : Turned::none;
        (n < kWalking ? t.first : t.cope) = Scored(n);
        if (more && n >= kWalking) t.last = Scored::soft_cap;
        expect_derivative(t, checked);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(checked, 60);
}

const Extents kShapes[] = {{2, 4, 2, 5, 5, 8, 8},    {1, 2, 1, 70, 70, 16, 16},
                           {1, 3, 1, 64, 64, 4, 5},  {1, 1, 1, 65, 129, 33, 17},
                           {2, 2, 2, 130, 130, 3, 3}, {1, 6, 2, 17, 100, 20, 12},
                           {1, 4, 4, 7, 3, 6, 6},    {1, 2, 1, 6, 0, 4, 4}};

TEST(Gradient, OfEveryScoreAlone) {
  std::uint64_t seed = 1000;
  for (const Extents& e : kShapes) {
    for (Index n = 0; n < kScored; ++n) {
      Training t;
      t.shape = e;
      t.seed = ++seed;
      t.head_scale = Scored(n) == Scored::head_scale;
      (n < kWalking ? t.first : t.cope) = Scored(n);
      expect_agreement(t);
    }
  }
}
TEST(Gradient, OfEveryPairOfScores) {
  std::uint64_t seed = 2000;
  for (Index a = 1; a < kScored; ++a) {
    for (Index b = 1; b < kScored; ++b) {
      if (a >= kWalking && b >= kWalking) continue;
      Training t;
      t.shape = kShapes[seed % 6];
      t.seed = ++seed;
      if (a < kWalking) t.first = Scored(a);
      if (b < kWalking) t.last = Scored(b);
      if (a >= kWalking) t.cope = Scored(a);
      if (b >= kWalking) t.cope = Scored(b);
      t.head_scale = Scored(a) == Scored::head_scale;
      expect_agreement(t);
    }
  }
}
TEST(Gradient, ThroughEveryMaskAndPlacement) {
  std::uint64_t seed = 3000;
  for (Index m = 0; m < 8; ++m) {
    for (Index s = 0; s < 4; ++s) {
      for (const Scored cope : {Scored::none, Scored::cope, Scored::cope_keys}) {
        Training t;
        t.shape = kShapes[seed % 6];
        t.seed = ++seed;
        t.mask = Masked(m);
        t.standing = Standing(s);
        t.cope = cope;
        if (cope == Scored::none) t.first = seed % 2 ? Scored::relative : Scored::t5;
        expect_agreement(t);
      }
    }
  }
}

Training draw(Random& r) {
  Training t;
  Extents& e = t.shape;
  e.batch = r.pick<Index>({1, 1, 1, 2});
  e.kv_heads = r.pick<Index>({1, 1, 2});
  e.heads = e.kv_heads * r.pick<Index>({1, 2, 3});
  e.q_len = std::max<Index>(edgy(r, r.chance(0.1) ? 130 : 33), 1);
  e.kv_len = r.chance(0.5) ? e.q_len : edgy(r, r.chance(0.1) ? 200 : 40);
  e.dim = r.pick<Index>({1, 2, 3, 4, 5, 7, 8, 16, 17});
  e.v_dim = r.chance(0.6) ? e.dim : r.integer(1, 18);
  t.filling = r.chance(0.8) ? Filling::normal
                            : r.pick({Filling::tiny, Filling::one_hot, Filling::alternating});
  t.seed = r.bits() >> 40;
  t.mask = Masked(r.chance(0.4) ? 1 : r.integer(0, 7));
  t.standing = Standing(r.chance(0.5) ? 0 : r.integer(0, 3));
  t.turned = Turned(r.chance(0.6) ? 0 : r.integer(1, 2));
  t.scale = r.chance(0.3);
  t.head_scale = r.chance(0.4);
  t.log_scale = r.chance(0.2);
  t.sinks = r.chance(0.3);
  t.first = r.chance(0.4) ? Scored(r.integer(1, 8)) : Scored::none;
  t.last = r.chance(0.4) ? Scored(r.integer(1, 8)) : Scored::none;
  t.cope = r.chance(0.5) ? Scored(r.integer(kWalking, kScored - 1)) : Scored::none;
  return t;
}

TEST(Gradient, OfRandomConfigurationsAlongRandomDirections) {
  Random random(run_seed());
  const Index wanted = release_run() ? 50000 : 2000;
  Index checked = 0;
  for (Index drawn = 0; checked < wanted; ++drawn) {
    ASSERT_LT(drawn, 4 * wanted) << "mistrusted: most directions step over a jump";
    const Training t = draw(random);
    expect_agreement(t);
    if (t.filling == Filling::normal) expect_derivative(t, checked);
    if (HasFatalFailure()) return;
  }
  std::printf("%lld directional derivatives\n", static_cast<long long>(checked));
}

}  // namespace
}  // namespace support

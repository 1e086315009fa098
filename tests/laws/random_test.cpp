// SPDX-License-Identifier: Apache-2.0
//
// Random configurations against the oracle: 20,000 of them, 1,000,000 with HEED_RELEASE=1. A
// failing one is made as small as it gets and printed as C++ for a test of its own. HEED_SEED
// chooses another stream, HEED_COUNT another number.

#include <sstream>

#include "support/erased.hpp"
#include "support/strided.hpp"

namespace support {
namespace {

enum class MaskKind {
  none,
  causal,
  window_sinks,
  narrow,
  not_where,
  documents,
  dense,
  causal_dense
};
enum class PlacementKind { none, top_left, positions, lengths };
enum class EncodingKind { none, halves, neighbours, both };
enum class ScoreKind {
  alibi,
  relative,
  relative_capped,
  t5,
  bias,
  soft_cap,
  bent,
  uneven,
  head_scale
};
enum class CopeKind { none, a, b, a_next, b_next, keys, values };

// Plain numbers, so that a case can be printed, shrunk and pasted.
struct Scenario {
  Extents shape;
  Filling filling = Filling::normal;
  std::uint64_t seed = 1;
  MaskKind mask = MaskKind::none;
  PlacementKind placement = PlacementKind::none;
  EncodingKind encoding = EncodingKind::none;
  bool scale = false, head_scale = false, log_scale = false;
  std::vector<ScoreKind> before, after;   // of CoPE, in order
  CopeKind cope = CopeKind::none;
  bool sinks = false;
  Layout layout = Layout::bhtd;
  Index threads = 1;

  bool causal() const {
    return mask == MaskKind::causal || mask == MaskKind::window_sinks || mask == MaskKind::narrow ||
           mask == MaskKind::documents || mask == MaskKind::causal_dense;
  }
  // Leaves out what does not go together.
  void settle() {
    Extents& e = shape;
    if (e.kv_heads > e.heads) e.kv_heads = e.heads;
    while (e.kv_heads > 1 && e.heads % e.kv_heads != 0) --e.kv_heads;
    if (!causal()) cope = CopeKind::none;
    if (cope == CopeKind::values) e.v_dim = e.dim;
    if (e.dim < 2) encoding = EncodingKind::none;
    if (mask == MaskKind::documents && e.kv_len == 0) mask = MaskKind::causal;
  }
};

std::string print(const Scenario& s) {
  std::ostringstream out;
  const Extents& e = s.shape;
  const auto list = [](const std::vector<ScoreKind>& scores) {
    std::string text;
    for (const ScoreKind k : scores) text += "ScoreKind(" + std::to_string(int(k)) + "), ";
    return text;
  };
  out << "  expect_agreement({.shape = {" << e.batch << ", " << e.heads << ", " << e.kv_heads
      << ", " << e.q_len << ", " << e.kv_len << ", " << e.dim << ", " << e.v_dim << "},\n"
      << "                    .filling = Filling::" << name(s.filling) << ", .seed = " << s.seed
      << "u,\n                    .mask = MaskKind(" << int(s.mask)
      << "), .placement = PlacementKind(" << int(s.placement) << "), .encoding = EncodingKind("
      << int(s.encoding) << "),\n                    .scale = " << s.scale
      << ", .head_scale = " << s.head_scale << ", .log_scale = " << s.log_scale
      << ",\n                    .before = {" << list(s.before) << "}, .after = {" << list(s.after)
      << "},\n                    .cope = CopeKind(" << int(s.cope) << "), .sinks = " << s.sinks
      << ", .layout = Layout::" << name(s.layout) << ", .threads = " << s.threads << "});\n";
  return out.str();
}

// A described policy with its place in the erased ones.
struct PartBase {
  virtual ~PartBase() = default;
  virtual void prepare(const World&, Random&) = 0;
  virtual void describe(oracle::Case&) const = 0;
  virtual void join(Erased&, const Slice&) const = 0;
};
template <class D, class Join>
struct PartOf : PartBase {
  D part;
  Join joined;
  explicit PartOf(Join j) : joined(j) {}
  void prepare(const World& w, Random& r) override { part.prepare(w, r); }
  void describe(oracle::Case& c) const override { part.describe(c); }
  void join(Erased& e, const Slice& s) const override { joined(e, part.policy(s)); }
};
template <class D, class Join>
std::unique_ptr<PartBase> part(Join j) {
  return std::make_unique<PartOf<D, Join>>(j);
}

std::unique_ptr<PartBase> mask_part(MaskKind kind) {
  const auto causal = [](Erased& e, const auto& m) { e.causal.add(m); };
  const auto any = [](Erased& e, const auto& m) { e.mask.add(m); };
  switch (kind) {
    case MaskKind::none: return nullptr;
    case MaskKind::causal: return part<Causal>(causal);
    case MaskKind::window_sinks: return part<WindowSinks>(causal);
    case MaskKind::narrow: return part<NarrowWindow>(causal);
    case MaskKind::not_where: return part<NotWhere>(any);
    case MaskKind::documents: return part<Documents>(causal);
    case MaskKind::dense: return part<Dense<false>>(any);
    case MaskKind::causal_dense: return part<Dense<true>>(causal);
  }
  return nullptr;
}

template <class Join>
std::unique_ptr<PartBase> score_part(ScoreKind kind, Join join) {
  switch (kind) {
    case ScoreKind::alibi: return part<AlibiSloped>(join);
    case ScoreKind::relative: return part<Relatived<false>>(join);
    case ScoreKind::relative_capped: return part<Relatived<true>>(join);
    case ScoreKind::t5: return part<T5Biased>(join);
    case ScoreKind::bias: return part<Biased>(join);
    case ScoreKind::soft_cap: return part<Capped>(join);
    case ScoreKind::bent: return part<Bent>(join);
    case ScoreKind::uneven: return part<Uneven>(join);
    case ScoreKind::head_scale: return part<HeadScaled>(join);
  }
  return nullptr;
}

// The same CoPE whatever its options: one type of pack.
struct AnyCope {
  Coped<false, true> a;
  Coped<true, true> b;
  Coped<false, false> a_next;
  Coped<true, false> b_next;
  Coped<false, true, oracle::Cope::Gates::keys> keys;
  Coped<false, true, oracle::Cope::Gates::values> values;

  template <class F>
  auto with(CopeKind kind, const F& f) {
    switch (kind) {
      case CopeKind::b: return f(b);
      case CopeKind::a_next: return f(a_next);
      case CopeKind::b_next: return f(b_next);
      case CopeKind::keys: return f(keys);
      case CopeKind::values: return f(values);
      default: return f(a);
    }
  }
};

template <class Pack>
Outputs call(const World& world, const Scenario& s, const Pack& pack) {
  const Extents& e = s.shape;
  const Strided q(world.data.q, {e.batch, e.heads, e.q_len, e.dim}, s.layout);
  const Strided k(world.data.k, {e.batch, e.kv_heads, e.kv_len, e.dim}, s.layout);
  const Strided v(world.data.v, {e.batch, e.kv_heads, e.kv_len, e.v_dim}, s.layout);
  const Index rows = e.batch * e.heads * e.q_len;
  const std::vector<float> nothing(size(rows * e.v_dim), 777.f);
  const Strided out(nothing, {e.batch, e.heads, e.q_len, e.v_dim}, s.layout);
  Fenced lse(rows), entropy(rows), weights(rows * e.kv_len);
  heed::Into into;
  into.out = out.view();
  into.lse = {lse.data(), {e.batch, e.heads, e.q_len}};
  into.entropy = {entropy.data(), {e.batch, e.heads, e.q_len}};
  const bool with_weights = s.seed % 3 == 0;
  if (with_weights) into.weights.to = {weights.data(), {e.batch, e.heads, e.q_len, e.kv_len}};
  heed::attend(Workers{s.threads}, into, q.view(), k.view(), v.view(), pack);
  Outputs outputs{out.packed(), lse.take(), entropy.take(), {}};
  if (with_weights) outputs.weights = weights.take();
  return outputs;
}

// Needs no oracle: every output lies between the smallest and the largest value of its column
// (and 0, which sinks and empty rows pull towards).
Verdict within_values(const Outputs& found, const oracle::Case& c) {
  Verdict verdict;
  const auto [batch, heads, q_len, v_dim] = c.extents();
  const Index group = c.k.extent[1] > 0 ? heads / c.k.extent[1] : 1;
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index d = 0; d < v_dim; ++d) {
        double low = 0, high = 0;
        for (Index j = 0; j < c.k.extent[2]; ++j) {
          low = std::min(low, c.v(b, h / group, j, d));
          high = std::max(high, c.v(b, h / group, j, d));
        }
        const double slack = 32 * kEps * std::max(-low, high);
        for (Index i = 0; i < q_len; ++i) {
          const double x =
              static_cast<double>(found.out[size(((b * heads + h) * q_len + i) * v_dim + d)]);
          if (x >= low - slack && x <= high + slack) continue;
          verdict.ratio = std::numeric_limits<double>::infinity();
          verdict.where = "an output is outside the range of the values";
        }
      }
    }
  }
  return verdict;
}

Verdict check(const Scenario& s) {
  const World world(s.shape, s.filling, s.seed);
  const Slice whole = world.whole();
  std::uint64_t salt = s.seed * 977;
  std::vector<std::unique_ptr<PartBase>> parts;
  const auto add = [&](std::unique_ptr<PartBase> p) {
    if (p == nullptr) return;
    Random random(salt++);
    p->prepare(world, random);
    parts.push_back(std::move(p));
  };
  add(mask_part(s.mask));
  const auto place = [](Erased& e, const auto& p) { e.placement.set(p); };
  if (s.placement == PlacementKind::top_left) add(part<TopLeft>(place));
  if (s.placement == PlacementKind::positions) add(part<Placed>(place));
  if (s.placement == PlacementKind::lengths) add(part<Padded>(place));
  const auto encode = [](Erased& e, const auto& p) { e.encoding.add(p); };
  if (s.encoding == EncodingKind::halves) add(part<Roped<true>>(encode));
  if (s.encoding == EncodingKind::neighbours) add(part<Roped<false>>(encode));
  if (s.encoding == EncodingKind::both) {
    add(part<Roped<false>>(encode));
    add(part<Roped<true>>(encode));
  }
  const auto multiply = [](Erased& e, const auto& p) { e.factor.add(p); };
  if (s.head_scale) add(part<HeadScaled>(multiply));
  if (s.log_scale) add(part<LogScaled>(multiply));
  for (const ScoreKind k : s.before) {
    add(score_part(k, [](Erased& e, const auto& p) { e.before.add(p); }));
  }
  const std::size_t first_after = parts.size();
  for (const ScoreKind k : s.after) {
    add(score_part(k, [](Erased& e, const auto& p) { e.after.add(p); }));
  }
  AnyCope cope;
  Scaled scaled;
  Sunk sunk;
  Random random(s.seed * 31);
  scaled.prepare(world, random);
  if (!s.scale) {
    scaled.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(world.shape.dim)));
  }
  sunk.prepare(world, random);
  if (s.cope != CopeKind::none) {
    cope.with(s.cope, [&](auto& c) { c.prepare(world, random); });
  }

  oracle::Case c = world.oracle_case();
  Erased e;
  const auto describe = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      parts[i]->describe(c);
      parts[i]->join(e, whole);
    }
  };
  describe(0, first_after);
  if (s.cope != CopeKind::none) cope.with(s.cope, [&](auto& p) { p.describe(c); });
  describe(first_after, parts.size());
  if (s.scale) scaled.describe(c);
  if (s.sinks) sunk.describe(c);

  const auto scale = scaled.policy(whole);
  const auto attend = [&](const auto&... policies) {
    return call(world, s, heed::pack(policies...));
  };
  // What a person would write when it is simple, so that the short ways are taken too.
  const bool bare = parts.size() == (s.mask == MaskKind::causal ? 1u : 0u) && !s.scale && !s.sinks;
  const auto outputs = [&]() -> Outputs {
    if (s.cope != CopeKind::none) {
      const heed::Cope policy =
          cope.with(s.cope, [&](auto& p) -> heed::Cope { return p.policy(whole); });
      if (bare) return attend(heed::causal, policy);
      if (s.sinks) {
        return attend(e.causal, e.placement, e.encoding, scale, e.factor, e.before, policy, e.after,
                      sunk.policy(whole));
      }
      return attend(e.causal, e.placement, e.encoding, scale, e.factor, e.before, policy, e.after);
    }
    if (bare && s.mask == MaskKind::causal) return attend(heed::causal);
    if (s.causal()) {
      return s.sinks
                 ? attend(sunk.policy(whole), e.causal, e.placement, e.encoding, e.factor, e.before,
                          e.after, scale)
                 : attend(e.causal, e.placement, e.encoding, e.factor, e.before, e.after, scale);
    }
    return s.sinks ? attend(sunk.policy(whole), e.mask, e.placement, e.encoding, e.factor, e.before,
                            e.after, scale)
                   : attend(e.mask, e.placement, e.encoding, e.factor, e.before, e.after, scale);
  };
  const Outputs found = outputs();
  const Verdict verdict = judge(found, c);
  return verdict.passed() && !within_values(found, c).passed() ? within_values(found, c) : verdict;
}

Verdict check_or_thrown(const Scenario& s) {
  try {
    return check(s);
  } catch (const std::exception& e) {
    return {std::numeric_limits<double>::infinity(), std::string("thrown: ") + e.what()};
  }
}

void expect_agreement(const Scenario& s) {
  const Verdict verdict = check_or_thrown(s);
  EXPECT_TRUE(verdict.passed()) << "ratio " << verdict.ratio << ": " << verdict.where << "\n"
                                << print(s);
}

Scenario draw(Random& r) {
  Scenario s;
  Extents& e = s.shape;
  e.batch = r.pick<Index>({1, 1, 1, 2, 3, 0});
  if (r.chance(0.8)) e.batch = 1;
  e.kv_heads = r.pick<Index>({1, 1, 2, 3});
  e.heads = e.kv_heads * r.pick<Index>({1, 1, 2, 3, 8});
  e.q_len = edgy(r, 130);
  e.kv_len = r.chance(0.4) ? e.q_len : edgy(r, 200);
  e.dim = r.chance(0.9) ? r.pick<Index>({1, 2, 3, 4, 5, 7, 8, 15, 16, 17}) : r.integer(1, 70);
  e.v_dim = r.chance(0.6) ? e.dim : r.chance(0.9) ? r.integer(0, 18) : r.integer(1, 70);
  // Most cases small: the work of the oracle is what takes the time.
  while (e.batch * e.heads * e.q_len * e.kv_len * (e.dim + e.v_dim) > 150000 && !r.chance(0.02)) {
    Index& most = e.heads > 3           ? e.heads
                  : e.q_len > e.kv_len  ? e.q_len
                  : e.kv_len > e.dim    ? e.kv_len
                                        : e.dim;
    most = (most + 1) / 2;
    e.kv_heads = std::min(e.kv_heads, e.heads);
    if (most == e.dim) e.v_dim = std::min(e.v_dim, e.dim);
    if (e.heads <= 3 && e.q_len <= 8 && e.kv_len <= 8 && e.dim <= 8) break;
  }
  s.filling = r.chance(0.5) ? Filling::normal : kFillings[r.integer(0, 7)];
  s.seed = r.bits() >> 40;
  s.mask = static_cast<MaskKind>(r.chance(0.4) ? 1 : r.integer(0, 7));
  s.placement = static_cast<PlacementKind>(r.chance(0.5) ? 0 : r.integer(0, 3));
  s.encoding = static_cast<EncodingKind>(r.chance(0.6) ? 0 : r.integer(0, 3));
  s.scale = r.chance(0.15);
  s.head_scale = r.chance(0.25);
  s.log_scale = r.chance(0.1);
  while (r.chance(0.3)) s.before.push_back(static_cast<ScoreKind>(r.integer(0, 8)));
  while (r.chance(0.2)) s.after.push_back(static_cast<ScoreKind>(r.integer(0, 8)));
  s.cope = static_cast<CopeKind>(r.chance(0.5) ? 0 : r.integer(1, 6));
  s.sinks = r.chance(0.15);
  s.layout = kLayouts[r.chance(0.5) ? 0 : r.integer(1, 5)];
  s.threads = r.chance(0.98) ? r.integer(0, 1) : r.integer(2, 5);
  s.settle();
  return s;
}

// Tries smaller neighbours while they still fail.
Scenario shrink(Scenario s) {
  const auto try_it = [&](auto change) {
    Scenario smaller = s;
    change(smaller);
    smaller.settle();
    if (print(smaller) == print(s) || check_or_thrown(smaller).passed()) return false;
    s = smaller;
    return true;
  };
  const auto lengths = [&](Index Extents::*member) {
    return try_it([=](Scenario& t) { t.shape.*member /= 2; }) ||
           try_it([=](Scenario& t) { t.shape.*member -= t.shape.*member > 1; });
  };
  bool smaller = true;
  for (int round = 0; smaller && round < 200; ++round) {
    smaller = lengths(&Extents::q_len) || lengths(&Extents::kv_len) || lengths(&Extents::batch) ||
              lengths(&Extents::v_dim) ||
              (s.shape.dim > 1 && lengths(&Extents::dim)) ||
              try_it([](Scenario& t) { t.shape.heads = t.shape.kv_heads; }) ||
              try_it([](Scenario& t) { t.shape.heads = t.shape.kv_heads = 1; }) ||
              try_it([](Scenario& t) { t.cope = CopeKind::none; }) ||
              try_it([](Scenario& t) { t.sinks = false; }) ||
              try_it([](Scenario& t) { t.scale = false; }) ||
              try_it([](Scenario& t) { t.head_scale = false; }) ||
              try_it([](Scenario& t) { t.log_scale = false; }) ||
              try_it([](Scenario& t) { t.encoding = EncodingKind::none; }) ||
              try_it([](Scenario& t) { t.placement = PlacementKind::none; }) ||
              try_it([](Scenario& t) { t.mask = MaskKind::none; }) ||
              try_it([](Scenario& t) { t.mask = MaskKind::causal; }) ||
              try_it([](Scenario& t) { t.layout = Layout::bhtd; }) ||
              try_it([](Scenario& t) { t.threads = 1; }) ||
              try_it([](Scenario& t) { t.filling = Filling::normal; });
    for (std::size_t i = 0; !smaller && i < s.before.size(); ++i) {
      smaller = try_it([i](Scenario& t) { t.before.erase(t.before.begin() + Index(i)); });
    }
    for (std::size_t i = 0; !smaller && i < s.after.size(); ++i) {
      smaller = try_it([i](Scenario& t) { t.after.erase(t.after.begin() + Index(i)); });
    }
  }
  return s;
}

TEST(Random, ConfigurationsAgreeWithTheOracle) {
  const char* given = std::getenv("HEED_COUNT");
  const Index count = given ? std::atoll(given) : release_run() ? 1000000 : 20000;
  Random random(run_seed());
  std::vector<float> ratios;
  Index failures = 0;
  for (Index i = 0; i < count; ++i) {
    const Scenario s = draw(random);
    const Verdict verdict = check_or_thrown(s);
    Worst::instance().note("random configurations", verdict.ratio, std::to_string(i));
    if (verdict.passed()) {
      ratios.push_back(static_cast<float>(verdict.ratio));
      continue;
    }
    const Scenario smallest = shrink(s);
    const Verdict v = check_or_thrown(smallest);
    ADD_FAILURE() << "configuration " << i << ", ratio " << v.ratio << ": " << v.where << "\n"
                  << print(smallest) << "found as\n" << print(s);
    if (++failures == 5) FAIL() << "and perhaps more: stopped";
  }
  std::sort(ratios.begin(), ratios.end());
  const auto percentile = [&](double p) {
    return ratios[static_cast<std::size_t>(p * static_cast<double>(ratios.size() - 1))];
  };
  std::printf("%lld configurations; ratio to what is allowed: largest %.3f, 99.99 %% below %.3f, "
              "median %.3f\n", static_cast<long long>(count), static_cast<double>(ratios.back()),
              static_cast<double>(percentile(0.9999)), static_cast<double>(percentile(0.5)));
  RecordProperty("worst_ratio", std::to_string(ratios.back()));
}

// What the search has found, as it printed it.
TEST(Random, FormerFailuresStayGone) {
  expect_agreement({.shape = {1, 1, 1, 1, 1, 1, 1}, .before = {}, .after = {}});
}

}  // namespace
}  // namespace support

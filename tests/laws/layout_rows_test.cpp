// SPDX-License-Identifier: Apache-2.0
//
// Public faults of other libraries, as tests: heads, memory orders, tails, empty extents.

#include "support/policies.hpp"
#include "support/strided.hpp"

namespace support {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The same call on strided copies; `out` in its own order.
Outputs strided(const World& w, Layout q, Layout k, Layout v, Layout out) {
  const Extents& e = w.shape;
  const Strided sq(w.data.q, {e.batch, e.heads, e.q_len, e.dim}, q);
  const Strided sk(w.data.k, {e.batch, e.kv_heads, e.kv_len, e.dim}, k);
  const Strided sv(w.data.v, {e.batch, e.kv_heads, e.kv_len, e.v_dim}, v);
  const std::vector<float> nothing(size(e.batch * e.heads * e.q_len * e.v_dim), kInfinity);
  const Strided so(nothing, {e.batch, e.heads, e.q_len, e.v_dim}, out);
  heed::Into into;
  into.out = so.view();
  heed::attend(into, sq.view(), sk.view(), sv.view(), heed::causal);
  return {so.packed(), {}, {}, {}};
}
Outputs only_out(Outputs o) { return {std::move(o.out), {}, {}, {}}; }

void expect_agreement(const World& w) {
  const Described<Causal> described(w, 1);
  const Verdict verdict = judge(attended(w, heed::causal), described.describe(w));
  ASSERT_TRUE(verdict.passed()) << verdict.ratio << ": " << verdict.where << ", dim "
                                << w.shape.dim << ", kv_len " << w.shape.kv_len;
}

TEST(Layout, R28HeadsOfAGroupAreNeighbours) {
  World w({1, 4, 2, 1, 1, 3, 1}, Filling::normal, 1);
  w.data.v = {0, 1};
  EXPECT_EQ(attended(w, heed::causal).out, (std::vector<float>{0, 0, 1, 1}));
}
TEST(Layout, R28GroupedHeadsEqualCopiedHeads) {
  for (const Index t : {5, 70}) {
    const World w({2, 6, 2, t, t, 8, 8}, Filling::normal, 2);
    World copied({2, 6, 6, t, t, 8, 8}, Filling::normal, 2);
    copied.data.q = w.data.q;
    const auto head = static_cast<std::ptrdiff_t>(t * 8);
    for (std::ptrdiff_t h = 0; h < 12; ++h) {
      const std::ptrdiff_t from = h / 6 * 2 + h % 6 / 3;
      std::copy_n(w.data.k.begin() + from * head, head, copied.data.k.begin() + h * head);
      std::copy_n(w.data.v.begin() + from * head, head, copied.data.v.begin() + h * head);
    }
    EXPECT_TRUE(same_bits(attended(w, heed::causal), attended(copied, heed::causal)));
  }
}
TEST(Layout, R29HeadsAreNotTime) {
  expect_agreement(World({1, 4, 2, 2, 2, 5, 5}, Filling::normal, 3));
  expect_agreement(World({2, 3, 3, 3, 3, 3, 3}, Filling::normal, 4));
}
TEST(Layout, R31BothOrdersOfHeadsAndTimeAgree) {
  for (const Index dim : {3, 5, 16}) {
    const World w({2, 3, 3, 7, 9, dim, dim}, Filling::normal, 5);
    const Outputs expected = only_out(attended(w, heed::causal));
    EXPECT_TRUE(same_bits(expected, strided(w, Layout::bthd, Layout::bthd, Layout::bthd,
                                            Layout::bthd)));
    expect_agreement(w);
  }
}
TEST(Layout, R34EveryMemoryOrderGivesTheSameBits) {
  for (const Index t : {6, 70}) {
    const World w({2, 4, 2, t, t + 3, 5, 18}, Filling::normal, 6);
    const Outputs expected = only_out(attended(w, heed::causal));
    constexpr Layout kPacked = Layout::bhtd;
    for (const Layout other : kLayouts) {
      EXPECT_TRUE(same_bits(expected, strided(w, other, kPacked, kPacked, kPacked))) << name(other);
      EXPECT_TRUE(same_bits(expected, strided(w, kPacked, other, kPacked, kPacked))) << name(other);
      EXPECT_TRUE(same_bits(expected, strided(w, kPacked, kPacked, other, kPacked))) << name(other);
      EXPECT_TRUE(same_bits(expected, strided(w, kPacked, kPacked, kPacked, other))) << name(other);
    }
  }
}
TEST(Layout, R35BroadcastKeysAndValuesGiveTheSameBits) {
  for (const Index t : {31, 32, 33, 63, 64, 65, 97}) {
    World w({2, 2, 2, t, t, 8, 16}, Filling::normal, 7);
    const Index head = t * 8, v_head = t * 16;
    for (Index copy = 1; copy < 4; ++copy) {
      std::copy_n(w.data.k.begin(), head, w.data.k.begin() + copy * head);
      std::copy_n(w.data.v.begin(), v_head, w.data.v.begin() + copy * v_head);
    }
    const Outputs expected = attended(w, heed::causal);
    std::vector<float> out(expected.out.size());
    heed::Into into;
    into.out = {out.data(), {2, 2, t, 16}};
    heed::attend(into, w.q(w.whole()),
                 heed::View<const float>(w.data.k.data(), {2, 2, t, 8}, {0, 0, 8}),
                 heed::View<const float>(w.data.v.data(), {2, 2, t, 16}, {0, 0, 16}), heed::causal);
    EXPECT_TRUE(same_bits(expected.out, out)) << t;
  }
}
TEST(Layout, OneKeyForAllTimesByAStrideOfZero) {
  World w({1, 1, 1, 4, 70, 8, 8}, Filling::normal, 8);
  std::vector<float> out(4 * 8);
  heed::Into into;
  into.out = {out.data(), {1, 1, 4, 8}};
  heed::attend(into, w.q(w.whole()),
               heed::View<const float>(w.data.k.data(), {1, 1, 70, 8}, {0, 0, 0}),
               heed::View<const float>(w.data.v.data(), {1, 1, 70, 8}, {0, 0, 0}), heed::causal);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], w.data.v[i % 8], 1e-5);
}
TEST(Layout, R37EveryDimIsWrittenInFull) {
  for (Index dim = 1; dim <= 260; ++dim) {
    const World w({1, 2, 1, 2, 4, dim, dim}, Filling::normal, static_cast<std::uint64_t>(dim));
    for (const float x : attended(w, heed::causal).out) ASSERT_FALSE(std::isnan(x)) << dim;
    expect_agreement(w);
  }
}
TEST(Layout, R39LongPromptsOfNarrowHeadsStayInTheirScratch) {
  expect_agreement(World({1, 1, 1, 2000, 2000, 4, 4}, Filling::normal, 9));
  expect_agreement(World({1, 1, 1, 3, 3, 260, 260}, Filling::normal, 9));
}
TEST(Layout, R40BiasOfAnyRowStrideIsAccepted) {
  for (const Index t : {43, 77}) {
    const World w({1, 1, 1, t, t, 4, 4}, Filling::normal, 10);
    Random r(1);
    std::vector<float> memory = normals(r, t * t + 1, 1);
    const heed::Bias bias{heed::View<const float>(memory.data() + 1, {1, 1, t, t})};
    oracle::Case c = w.oracle_case();
    c.masks.push_back([](const auto& q, const auto& k) { return k.position <= q.position; });
    c.scores.push_back(oracle::Bias{[&](const auto& q, const auto& k) {
      return static_cast<double>(memory[size(1 + q.row * t + k.index)]);
    }});
    const Verdict verdict = judge(attended(w, heed::causal, bias), c);
    EXPECT_TRUE(verdict.passed()) << verdict.ratio << ": " << verdict.where;
  }
}
// Two heads of width 16 side by side: the scale is 1/4, not 1/sqrt(32).
TEST(Layout, R42R43ScaleComesFromTheHeadsWidth) {
  World w({1, 2, 2, 1, 2, 16, 16}, Filling::equal, 0);
  std::fill(w.data.q.begin(), w.data.q.end(), 1.f);
  for (std::size_t i = 0; i < w.data.k.size(); ++i) w.data.k[i] = i / 16 % 2 ? 0.25f : 0.f;
  const Outputs o = attended(w, heed::causal);   // logits 0 and 16 * 0.25 / 4 = 1
  EXPECT_NEAR(o.lse[0], 1.3132617, 1e-6);
  EXPECT_NEAR(o.lse[1], 1.3132617, 1e-6);
}

// Every subset of the six extents set to 0: nothing to do, an empty row, or a sentence.
TEST(Layout, R32ZeroExtentsNeverTrap) {
  Index refused = 0, empty = 0;
  for (int bits = 0; bits < 64; ++bits) {
    Extents e{2, 2, 1, 3, 4, 5, 6};
    Index* const members[] = {&e.batch, &e.heads, &e.kv_heads, &e.q_len, &e.kv_len, &e.dim};
    for (int i = 0; i < 6; ++i) {
      if (bits >> i & 1) *members[i] = 0;
    }
    const World w(e, Filling::normal, 1);
    const bool queries = e.batch * e.heads * e.q_len != 0;
    try {
      const Outputs o = attended(w, heed::causal);
      EXPECT_FALSE(queries && (e.dim == 0 || e.kv_heads == 0)) << bits;
      for (const float x : o.lse) EXPECT_EQ(x == -kInfinity, e.kv_len == 0) << bits;
      for (const float x : o.out) EXPECT_EQ(x == 0, e.kv_len == 0) << bits;
      ++empty;
    } catch (const std::invalid_argument& error) {
      EXPECT_TRUE(e.dim == 0 || e.kv_heads == 0) << bits << ": " << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(empty, 0);
}
TEST(Layout, R32ValuesOfWidthZeroStillHaveAnLse) {
  const World w({1, 2, 1, 3, 4, 5, 0}, Filling::normal, 1);
  for (const float x : attended(w, heed::causal).lse) EXPECT_TRUE(std::isfinite(x));
}
TEST(Layout, R33NoKeysGiveZeros) {
  const World w({1, 2, 1, 3, 0, 4, 4}, Filling::normal, 2);
  TableOf table;
  Random r(2);
  table.make(r, 1, 5, 4, 1);
  for (const Outputs& o : {attended(w, heed::causal), attended(w),
                           attended(w, heed::causal, heed::Cope{table.view()}),
                           attended(w, heed::causal, heed::Alibi{},
                                    heed::Rope{.pairing = heed::Pairing::halves})}) {
    for (const float x : o.out) EXPECT_EQ(x, 0.f);
    for (const float x : o.lse) EXPECT_EQ(x, -kInfinity);
    for (const float x : o.entropy) EXPECT_EQ(x, 0.f);
  }
}
TEST(Layout, R33RaggedBatchWithEmptyMembers) {
  const World w({4, 2, 1, 4, 4, 4, 4}, Filling::normal, 3);
  const std::vector<Index> lengths{0, 4, 0, 1};
  const Outputs o = attended(w, heed::causal, heed::Lengths{.q = lengths, .kv = lengths});
  for (Index b = 0; b < 4; ++b) {
    for (Index h = 0; h < 2; ++h) {
      for (Index i = 0; i < 4; ++i) {
        EXPECT_EQ(std::isfinite(o.lse[size((b * 2 + h) * 4 + i)]), i < lengths[size(b)]);
      }
    }
  }
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "nothing thrown";
}
TEST(Layout, HeadsThatDoNotDivideAreNamed) {
  const World w({1, 8, 3, 2, 2, 4, 4}, Filling::normal, 1);
  const std::string text = refusal([&] { attended(w, heed::causal); });
  EXPECT_NE(text.find("heed::attend: k has 3 heads; expected a divisor of q's 8"), text.npos)
      << text;
}
TEST(Layout, R65OutputOverAnInputIsRefusedAndNothingIsWritten) {
  World w({1, 2, 2, 3, 3, 4, 4}, Filling::normal, 1);
  const World before = w;
  for (auto* x : {&w.data.q, &w.data.k, &w.data.v}) {
    heed::Into into;
    into.out = {x->data(), {1, 2, 3, 4}};
    EXPECT_NE(refusal([&] {
                heed::attend(into, w.q(w.whole()), w.k(w.whole()), w.v(w.whole()), heed::causal);
              }).find("overlaps"), std::string::npos);
  }
  EXPECT_TRUE(same_bits(w.data.q, before.data.q));
  EXPECT_TRUE(same_bits(w.data.k, before.data.k));
  EXPECT_TRUE(same_bits(w.data.v, before.data.v));
}
TEST(Layout, ARefusedCallWritesNothing) {
  const World w({1, 2, 1, 3, 3, 4, 4}, Filling::normal, 1);
  std::vector<float> out(24, 7.f), lse(6, 7.f);
  heed::Into into;
  into.out = {out.data(), {1, 2, 3, 4}};
  into.lse = {lse.data(), {1, 2, 3}};
  const std::vector<float> three(3, 1.f);
  EXPECT_THROW(heed::attend(into, w.q(w.whole()), w.k(w.whole()), w.v(w.whole()), heed::causal,
                            heed::HeadScale{three}), std::invalid_argument);
  EXPECT_EQ(out, std::vector<float>(24, 7.f));
  EXPECT_EQ(lse, std::vector<float>(6, 7.f));
}
TEST(Layout, ExtentsWhoseProductOverflowsAreRefused) {
  float x = 0;
  constexpr Index kHuge = Index{1} << 33;
  const heed::View<const float> q(&x, {kHuge, kHuge, 1, 1}, {0, 0, 0});
  heed::Into into;
  into.out = {&x, {kHuge, kHuge, 1, 1}, {0, 0, 0}};
  EXPECT_NE(refusal([&] { heed::attend(into, q, q, q, heed::causal); }).find("overflow"),
            std::string::npos);
}

}  // namespace
}  // namespace support

// SPDX-License-Identifier: Apache-2.0
//
// decode and stepwise prefill: laws 5 and 9, the order append, attend, observe, evict (C13), CoPE
// after eviction (C17), and the reports R05, R24 - R27, R66, R67, R69, R74, R75, R78.

#include <gtest/gtest.h>

#include "support/cache_world.hpp"

namespace {

using namespace support;
using heed::causal;
using heed::KeyPositions;
using heed::Prefill;
using heed::Scope;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Both sides of "within tolerance": twice what one side alone is allowed against the oracle.
::testing::AssertionResult close(const Outputs& a, const Outputs& b, float by = 2e-5f) {
  const auto compare = [&](const char* what, const std::vector<float>& x,
                           const std::vector<float>& y) -> ::testing::AssertionResult {
    if (x.size() != y.size()) return ::testing::AssertionFailure() << what << ": sizes";
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == y[i] || std::abs(x[i] - y[i]) <= by * (1 + std::abs(y[i]))) continue;
      return ::testing::AssertionFailure() << what << "[" << i << "]: " << x[i] << " and " << y[i];
    }
    return ::testing::AssertionSuccess();
  };
  if (auto r = compare("out", a.out, b.out); !r) return r;
  if (auto r = compare("lse", a.lse, b.lse); !r) return r;
  return compare("entropy", a.entropy, b.entropy);
}

// Token by token, joined to one call's outputs [batch, heads, time].
template <class C, class... Ps>
Outputs one_by_one(const World& w, Index count, C& cache, const Ps&... policies) {
  const Index rows = w.shape.batch * w.shape.heads;
  Outputs all;
  all.out.resize(size(rows * count * w.shape.v_dim));
  all.lse.resize(size(rows * count));
  all.entropy.resize(size(rows * count));
  for (Index t = 0; t < count; ++t) {
    const Outputs one = decode_piece(w, piece(w, t, 1), cache, policies...);
    for (Index r = 0; r < rows; ++r) {
      for (Index d = 0; d < w.shape.v_dim; ++d) {
        all.out[size((r * count + t) * w.shape.v_dim + d)] = one.out[size(r * w.shape.v_dim + d)];
      }
      all.lse[size(r * count + t)] = one.lse[size(r)];
      all.entropy[size(r * count + t)] = one.entropy[size(r)];
    }
  }
  return all;
}

// Law 5 with room for everything: prefill row = decode step, for every policy a cache allows.
template <class... Ps>
void expect_law_5(const World& w, const char* name, const Ps&... policies) {
  const Index n = w.shape.q_len;
  const Outputs whole = run(w, w.whole(), heed::pack(policies...));
  heed::Cache cache{options_of(w, 0)};
  const Outputs steps = one_by_one(w, n, cache, policies...);
  EXPECT_TRUE(close(steps, whole)) << name << ", dim " << w.shape.dim;
  heed::CacheOptions o = options_of(w, 0);
  o.budget = n;
  heed::Cache roomy{o, heed::Tova{}};
  EXPECT_TRUE(same_bits(steps, decode_piece(w, piece(w, 0, n), roomy, policies...))) << name;
  heed::Cache stepwise{o, heed::HeavyHitters{}};
  EXPECT_TRUE(same_bits(steps, prefill_piece(w, piece(w, 0, n), stepwise, Prefill::stepwise,
                                             policies...))) << name;
  heed::Cache shot{o, heed::HeavyHitters{}};
  EXPECT_TRUE(same_bits(whole, prefill_piece(w, piece(w, 0, n), shot, Prefill::one_shot,
                                             policies...))) << name;
}

TEST(Law5, AStepIsARowOfPrefillUnderEveryPolicy) {
  for (const Extents& e : {Extents{2, 4, 2, 150, 150, 8, 8}, {1, 3, 1, 70, 70, 33, 17},
                           {1, 1, 1, 130, 130, 16, 64}, {1, 8, 2, 20, 20, 64, 64},
                           {1, 70, 1, 66, 66, 4, 3}, {2, 2, 2, 65, 65, 128, 40}}) {
    const World w = cache_world(e, 50);
    Matrix table = Matrix::Random(9, e.dim), distances = Matrix::Random(20, e.dim);
    std::vector<float> scales(size(e.heads)), sinks(size(e.heads));
    for (Index h = 0; h < e.heads; ++h) {
      scales[size(h)] = 1 + 0.1f * float(h % 5);
      sinks[size(h)] = 0.3f * float(h % 3) - 0.2f;
    }
    const heed::Rope rope{
        .theta = 100, .pairing = heed::Pairing::neighbours, .width = e.dim / 2 * 2};
    expect_law_5(w, "causal", causal);
    expect_law_5(w, "window", causal & (heed::Window{20} | heed::Sinks{3}));
    expect_law_5(w, "where", causal,
                 heed::where([](Index q, Index k) { return (q - k) % 3 == 0; }));
    expect_law_5(w, "rope", causal, rope);
    expect_law_5(w, "alibi", causal, heed::Alibi{});
    expect_law_5(w, "head scale", causal, heed::HeadScale{scales});
    expect_law_5(w, "soft cap", causal, heed::SoftCap{2.0f});
    expect_law_5(w, "relative", causal, heed::Relative{table});
    expect_law_5(w, "sinks", causal, heed::SinkLogits{sinks});
    expect_law_5(w, "cope", causal, heed::Cope{table});
    expect_law_5(w, "scale, cope, window, rope", causal & heed::Window{40}, rope,
                 heed::HeadScale{scales}, heed::Cope{table, {.form = heed::CopeForm::b}});
    expect_law_5(w, "cope, cap", causal, heed::Cope{distances}, heed::SoftCap{3});
  }
}

// Law 9: Oldest{s} with budget n is the mask causal & (Window{n - s + 1} | Sinks{s}). R17, R71.
TEST(Law9, OldestIsAWindowWithSinks) {
  for (const auto& [budget, sinks] : {std::pair<Index, Index>{2, 0}, {7, 3}, {64, 4}, {1, 0}}) {
    const World w = cache_world({2, 4, 2, 150, 150, 8, 5}, 9);
    const auto mask = causal & (heed::Window{budget - sinks + 1} | heed::Sinks{sinks});
    const heed::Rope rope{.pairing = heed::Pairing::halves};
    const Outputs expected = run(w, w.whole(), heed::pack(mask, rope, heed::Alibi{}));
    for (const Scope scope : {Scope::layer, Scope::head}) {
      heed::CacheOptions o = options_of(w, 0);
      o.budget = budget;
      o.scope = scope;
      heed::Cache cache{o, heed::Oldest{.sinks = sinks}};
      const Outputs steps = one_by_one(w, 150, cache, causal, rope, heed::Alibi{});
      EXPECT_TRUE(close(steps, expected)) << budget << ", " << sinks;
      heed::Cache chunks{o, heed::Oldest{.sinks = sinks}};
      EXPECT_TRUE(same_bits(steps, prefill_piece(w, piece(w, 0, 150), chunks, Prefill::stepwise,
                                                 causal, rope, heed::Alibi{})));
    }
  }
}

TEST(R17, AWindowOfThreeIsABudgetOfTwo) {
  const Index n = 5;
  World w = cache_world({1, 1, 1, n, n, 1, 1}, 1);
  for (Index t = 0; t < n; ++t) {
    w.data.q[size(t)] = w.data.k[size(t)] = 0;
    w.data.v[size(t)] = float(t);
  }
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 2;
  heed::Cache cache{o, heed::Oldest{}};
  EXPECT_EQ(one_by_one(w, n, cache, causal).out, (std::vector<float>{0, 0.5, 1, 2, 3}));
}

// C13, R75: the first token sees itself: v bit for bit, lse its logit.
TEST(R75, TheFirstTokenOfAnEmptyCacheSeesItself) {
  const World w = cache_world({1, 1, 1, 1, 1, 5, 7}, 75);
  heed::Cache cache{options_of(w, 0)};
  const Outputs one = decode_piece(w, piece(w, 0, 1), cache);
  EXPECT_TRUE(same_bits(one.out, w.data.v));
  double logit = 0;
  for (Index d = 0; d < 5; ++d) logit += double(w.data.q[size(d)]) * double(w.data.k[size(d)]);
  EXPECT_NEAR(double(one.lse[0]), logit / std::sqrt(5.0), 1e-6);
  EXPECT_EQ(one.entropy[0], 0.f);
}

// R69: three cached, the current one weighs least. Protected, the second smallest goes; else the
// current goes, though this step has used it.
TEST(R69, TheCurrentTokenMayGoUnlessProtected) {
  World w = cache_world({1, 1, 1, 4, 4, 1, 1}, 1);
  const float logits[] = {1, 3, 2, -1};
  for (std::size_t t = 0; t < 4; ++t) {
    w.data.q[t] = 1;
    w.data.k[t] = logits[t];
    w.data.v[t] = float(t);
  }
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 3;
  heed::Cache open{o, heed::Tova{}};
  o.protect_current = true;
  heed::Cache protects{o, heed::Tova{}};
  const Outputs a = one_by_one(w, 4, open, causal), b = one_by_one(w, 4, protects, causal);
  EXPECT_EQ(held(open), (std::vector<Index>{0, 1, 2}));
  EXPECT_EQ(held(protects), (std::vector<Index>{1, 2, 3}));
  EXPECT_TRUE(same_bits(a, b));
}

// R66: two tokens in the middle are gone, then a chunk of three: the oracle on (position, key).
TEST(R66, AChunkAfterEvictionSeesWhatIsLeftByPosition) {
  const World w = cache_world({1, 2, 1, 12, 12, 4, 4}, 66);
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 7;
  heed::Cache cache{o, heed::Tova{}};
  decode_piece(w, piece(w, 0, 9), cache, causal, heed::Alibi{});
  const std::vector<Index> kept = held(cache);
  ASSERT_EQ(kept.size(), 7u);
  EXPECT_NE(kept, (std::vector<Index>{2, 3, 4, 5, 6, 7, 8})) << "mistrusted: a trailing window";
  // One shot: nothing goes before the chunk's end, so the oracle is one call.
  const Outputs found = prefill_piece(w, piece(w, 9, 3), cache, Prefill::one_shot, causal,
                                      heed::Alibi{});
  oracle::Case c;
  c.q = oracle::Array<double>({1, 2, 3, 4});
  c.k = c.v = oracle::Array<double>({1, 1, 10, 4});
  std::vector<Index> positions = kept;
  for (const Index t : {9, 10, 11}) positions.push_back(t);
  for (Index d = 0; d < 4; ++d) {
    for (Index j = 0; j < 10; ++j) {
      c.k(0, 0, j, d) = double(w.data.k[size(positions[size(j)] * 4 + d)]);
      c.v(0, 0, j, d) = double(w.data.v[size(positions[size(j)] * 4 + d)]);
    }
    for (Index h = 0; h < 2; ++h) {
      for (Index i = 0; i < 3; ++i)
        c.q(0, h, i, d) = double(w.data.q[size((h * 12 + 9 + i) * 4 + d)]);
    }
  }
  c.q_position = {{9, 10, 11}};
  c.k_position = {positions};
  c.masks.push_back(
      [](const oracle::Query& q, const oracle::Key& k) { return k.position <= q.position; });
  c.scores.push_back(oracle::Alibi{oracle::alibi_slopes(2)});
  const Verdict verdict = judge(found, c);
  EXPECT_TRUE(verdict.passed()) << verdict.where;
}

// R26: one ragged call is each entry's own run, bit for bit. R78: padding is never read.
TEST(R26, ARaggedBatchIsEveryEntryAlone) {
  for (const Prefill how : {Prefill::one_shot, Prefill::stepwise}) {
    World w = cache_world({3, 4, 2, 30, 30, 8, 6}, 26);
    const std::vector<Index> lengths{2, 30, 5};
    for (Index b = 0; b < 3; ++b) {   // padding is full of NaN
      for (Index t = lengths[size(b)]; t < 30; ++t) {
        for (Index h = 0; h < 4; ++h) {
          for (Index d = 0; d < 8; ++d) w.data.q[size(((b * 4 + h) * 30 + t) * 8 + d)] = NAN;
        }
        for (Index g = 0; g < 2; ++g) {
          for (Index d = 0; d < 8; ++d) w.data.k[size(((b * 2 + g) * 30 + t) * 8 + d)] = NAN;
          for (Index d = 0; d < 6; ++d) w.data.v[size(((b * 2 + g) * 30 + t) * 6 + d)] = NAN;
        }
      }
    }
    const heed::Rope rope{.pairing = heed::Pairing::halves};
    heed::CacheOptions o = options_of(w, 0);
    o.budget = 16;
    heed::Cache cache{o, heed::HeavyHitters{}};
    const Outputs all = prefill_piece(w, piece(w, 0, 30), cache, how, causal, rope,
                                      heed::Lengths{.q = lengths, .kv = lengths});
    for (Index b = 0; b < 3; ++b) {
      const Index n = lengths[size(b)];
      o.batch = 1;
      heed::Cache alone{o, heed::HeavyHitters{}};
      const Outputs mine = prefill_piece(w, piece(w, 0, n, b), alone, how, causal, rope);
      for (Index h = 0; h < 4; ++h) {
        for (Index t = 0; t < 30; ++t) {
          const std::size_t row = size((b * 4 + h) * 30 + t);
          if (t >= n) {
            ASSERT_EQ(all.lse[row], -INFINITY);
            ASSERT_EQ(all.out[row * 6], 0.f);
            continue;
          }
          const std::size_t own = size(h * n + t);
          ASSERT_EQ(std::memcmp(&all.out[row * 6], &mine.out[own * 6], 6 * sizeof(float)), 0)
              << b << ", " << h << ", " << t;
          ASSERT_EQ(all.lse[row], mine.lse[own]);
        }
      }
      EXPECT_EQ(held(cache, b, 1), held(alone, 0, 1));
    }
  }
}

// R27: lengths 1, 5, 9, twenty more steps, one reset midway. R67, R74: entries never mix.
TEST(R27, SequencesAtDifferentStepsAreEachTheirOwnRun) {
  const World w = cache_world({3, 4, 2, 40, 40, 8, 8}, 27);
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 10;
  heed::Cache batch{o, heed::HeavyHitters{}};
  o.batch = 1;
  std::vector<heed::Cache<heed::HeavyHitters>> alone(3, heed::Cache{o, heed::HeavyHitters{}});
  const std::vector<Index> lengths{1, 5, 9};
  prefill_piece(w, piece(w, 0, 9), batch, Prefill::stepwise, causal, heed::Alibi{},
                heed::Lengths{.q = lengths, .kv = lengths});
  for (Index b = 0; b < 3; ++b) {
    prefill_piece(w, piece(w, 0, lengths[size(b)], b), alone[size(b)], Prefill::stepwise, causal,
                  heed::Alibi{});
  }
  for (Index step = 0; step < 20; ++step) {
    if (step == 8) {
      batch.reset(1);
      alone[1].reset();
    }
    const Outputs all = decode_piece(w, piece(w, 9 + step, 1), batch, causal, heed::Alibi{});
    for (Index b = 0; b < 3; ++b) {
      const Outputs mine =
          decode_piece(w, piece(w, 9 + step, 1, b), alone[size(b)], causal, heed::Alibi{});
      const std::vector<float> out(all.out.begin() + b * 32, all.out.begin() + (b + 1) * 32);
      ASSERT_TRUE(same_bits(out, mine.out)) << step << ", " << b;
      for (Index g = 0; g < 2; ++g) ASSERT_EQ(held(batch, b, g), held(alone[size(b)], 0, g));
    }
  }
}

// R05: slots that hold nothing may hold anything.
TEST(R05, UnusedSlotsAreNeverRead) {
  const World w = cache_world({1, 4, 2, 32, 32, 20, 12}, 5);
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 128;
  const auto outputs = [&](unsigned char byte) {
    heed::Cache cache{o, heed::Tova{}};
    for (Index g = 0; g < 2; ++g) {
      using Access = heed::detail::CacheAccess;
      const Index floats = 129 * (Access::stride(cache, heed::Source::key) +
                                  Access::stride(cache, heed::Source::value));
      std::memset(Access::stream(cache, heed::Source::key, 0, g), byte,
                  size(floats) * sizeof(float));
    }
    return decode_piece(w, piece(w, 0, 32), cache, causal, heed::Alibi{});
  };
  EXPECT_TRUE(same_bits(outputs(0), outputs(0xff)));
}

// R24: after hundreds of evictions a key is still its raw self, rotated once at its rank.
TEST(R24, InCachePositionsDoNotDrift) {
  const World w = cache_world({1, 2, 1, 260, 260, 8, 4}, 24);
  const heed::Rope rope{.pairing = heed::Pairing::halves};
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 32;
  o.key_positions = KeyPositions::in_cache;
  heed::Cache cache{o, heed::Tova{}};
  decode_piece(w, piece(w, 0, 259), cache, causal, rope);
  EXPECT_GE(cache.statistics().evicted, 200);
  const std::vector<Index> kept = held(cache);
  for (std::size_t rank = 0; rank < kept.size(); ++rank) {
    const auto key = cache.key(0, 0, Index(rank));
    for (Index d = 0; d < 8; ++d) EXPECT_EQ(key[d], w.data.k[size(kept[rank] * 8 + d)]);
  }
  // The next step equals plain attention over the kept ones, standing side by side.
  const Outputs found = decode_piece(w, piece(w, 259, 1), cache, causal, rope);
  World flat = cache_world({1, 2, 1, 33, 33, 8, 4}, 24);
  flat.shape.q_len = 1;
  for (std::size_t j = 0; j < 33; ++j) {
    const std::size_t at = j < 32 ? size(kept[j]) : 259u;
    std::copy_n(&w.data.k[at * 8], 8, &flat.data.k[j * 8]);
    std::copy_n(&w.data.v[at * 4], 4, &flat.data.v[j * 4]);
  }
  for (std::size_t h = 0; h < 2; ++h)
    std::copy_n(&w.data.q[(h * 260 + 259) * 8], 8, &flat.data.q[h * 8]);
  EXPECT_TRUE(close(found, run(flat, {0, 1, 0, 1, 33}, heed::pack(causal, rope))));
}

// C17: evicting a prefix changes no CoPE position of what is left. With a convex table, so that a
// shift of all positions would show.
TEST(C17, CopeAfterAWindowCountsAsIfTheRestHadNeverBeen) {
  const World w = cache_world({1, 2, 1, 90, 90, 8, 8}, 17);
  Matrix table(12, 8);
  for (Index n = 0; n < 12; ++n) {
    for (Index d = 0; d < 8; ++d) table(n, d) = 0.02f * float(n * n) * (d % 2 ? 1.f : -0.5f);
  }
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 20;
  heed::Cache window{o, heed::Oldest{}};
  const Outputs found = one_by_one(w, 90, window, causal, heed::Cope{table});
  const Outputs masked =
      run(w, w.whole(), heed::pack(causal & heed::Window{21}, heed::Cope{table}));
  EXPECT_TRUE(close(found, masked, 1e-4f));
  EXPECT_TRUE(
      differs(masked.out, run(w, w.whole(), heed::pack(causal & heed::Window{21})).out, 0.05));
}

// CoPE's separate gate keys are a third stream, evicted with the rest.
TEST(GateKeys, AreStoredBesideTheKeys) {
  const World w = cache_world({1, 4, 2, 80, 80, 8, 8}, 31),
              gates = cache_world({1, 4, 2, 80, 80, 8, 8}, 32);
  const Matrix table = Matrix::Random(9, 8);
  const heed::Rope rope{.pairing = heed::Pairing::halves};
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 25;
  o.gate_keys = true;
  for (const Prefill how : {Prefill::stepwise, Prefill::one_shot}) {
    heed::Cache cache{o, heed::Oldest{}};
    const auto cope = [&](Index from, Index count) {
      return heed::Cope{table}.gate_keys(piece(gates, from, count).k);
    };
    const Outputs first = prefill_piece(w, piece(w, 0, 26), cache, how, causal, rope, cope(0, 26));
    const auto mask = causal & heed::Window{26};
    const Outputs all = run(
        w, w.whole(), heed::pack(mask, rope, heed::Cope{table}.gate_keys(gates.k(gates.whole()))));
    for (Index t = 0; t < 26; ++t) {
      ASSERT_TRUE(close(row_of(w, first, 26, t), row_of(w, all, 80, t), 1e-4f)) << t;
    }
    for (Index t = 26; t < 80; ++t) {
      const Outputs one = decode_piece(w, piece(w, t, 1), cache, causal, rope, cope(t, 1));
      ASSERT_TRUE(close(one, row_of(w, all, 80, t), 1e-4f)) << t;
    }
  }
}

// The number of threads and the order of jobs do not show; long caches are cut in parts.
TEST(Threads, AnyNumberGivesTheSameBits) {
  for (const Index n : {200, 4300}) {
    const World w = cache_world({2, 4, 2, n + 40, n + 40, 8, 8}, 44);
    const auto outputs = [&](Index threads, auto eviction) {
      heed::CacheOptions o = options_of(w, 0);
      o.budget = n;
      heed::Cache cache{o, eviction};
      const Workers workers{threads};
      const Piece first = piece(w, 0, n), rest = piece(w, n, 40);
      prefill_piece(w, first, cache, Prefill::one_shot, causal & heed::Window{n}, heed::Alibi{});
      const Outputs out = with_outputs(w, rest, [&](const heed::Into& into) {
        if (threads < 0) {
          heed::decode(into, rest.q, rest.k, rest.v, cache, causal, heed::Alibi{});
        } else {
          heed::decode(workers, into, rest.q, rest.k, rest.v, cache, causal, heed::Alibi{});
        }
      });
      return std::pair{out, state_of(cache)};
    };
    const auto test = [&](auto eviction) {
      const auto serial = outputs(-1, eviction);   // without an executor
      for (const Index threads : {0, 1, 2, 3, 8}) {
        const auto other = outputs(threads, eviction);
        ASSERT_TRUE(same_bits(serial.first, other.first)) << threads;
        ASSERT_TRUE(serial.second == other.second) << threads;
      }
    };
    test(heed::Tova{});
    test(heed::HeavyHitters{});
  }
}

// Parts merged equal one pass.
TEST(Parts, ALongCacheEqualsAttention) {
  const World w = cache_world({1, 3, 1, 4200, 4200, 8, 8}, 45);
  const std::vector<float> sinks{0.5f, -1, 4};
  heed::Cache cache{options_of(w, 0)};
  prefill_piece(w, piece(w, 0, 4199), cache, Prefill::one_shot, causal & heed::Window{1});
  const auto copy = cache;
  const auto expect = [&](auto... policies) {
    auto fork = copy;
    const Outputs one = decode_piece(w, piece(w, 4199, 1), fork, policies...);
    oracle::Case c = w.oracle_case();
    const Outputs all = run(w, {0, 1, 4199, 1, 4200}, heed::pack(policies...));
    EXPECT_TRUE(close(one, all));
  };
  expect(causal);
  expect(causal, heed::SinkLogits{sinks});
  expect(causal & heed::Window{100});
  expect(causal & heed::Sinks{100});
  expect(causal, heed::where([](Index, Index k) { return k < 0; }), heed::SinkLogits{sinks});
  expect(causal, heed::where([](Index, Index k) { return k < 0; }));
}

// NaN in what a query may see makes its row NaN and its neighbours nothing; the eviction goes on.
TEST(Nan, StaysInItsRowAndTheOldestGoes) {
  World w = cache_world({1, 4, 2, 12, 12, 4, 4}, 90);
  for (Index d = 0; d < 4; ++d) w.data.q[size((1 * 12 + 10) * 4 + d)] = NAN;   // head 1, token 10
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 6;
  heed::Cache cache{o, heed::Tova{}};
  decode_piece(w, piece(w, 0, 10), cache, causal);
  auto clean = cache;
  const std::vector<Index> before = held(cache);
  const Outputs row = decode_piece(w, piece(w, 10, 1), cache, causal);
  World same = w;
  for (Index d = 0; d < 4; ++d) same.data.q[size((1 * 12 + 10) * 4 + d)] = 1;
  const Outputs other = decode_piece(same, piece(same, 10, 1), clean, causal);
  for (std::size_t h = 0; h < 4; ++h) {
    for (std::size_t d = 0; d < 4; ++d) {
      if (h == 1) {
        EXPECT_TRUE(std::isnan(row.out[h * 4 + d]));
      } else {
        EXPECT_EQ(row.out[h * 4 + d], other.out[h * 4 + d]);
      }
    }
  }
  std::vector<Index> expected(before.begin() + 1, before.end());
  expected.push_back(10);
  EXPECT_EQ(held(cache), expected);
}

// R60: what a user's policy throws leaves the cache as it was before that token, full or not.
template <class E>
void expect_thrown_tokens_gone(const World& w, E eviction, Index budget) {
  heed::CacheOptions o = options_of(w, 0);
  o.budget = budget;
  o.history = budget > 0;
  heed::Cache cache{o, eviction};
  bool armed = true;
  const auto bomb = heed::where([&](heed::Query q, heed::Key) -> bool {
    if (armed && q.position == 9 && q.batch == 1 && q.head == 3) throw std::runtime_error("bomb");
    return true;
  });
  decode_piece(w, piece(w, 0, 7), cache, causal & bomb);
  heed::Cache expected = cache;
  decode_piece(w, piece(w, 7, 2), expected, causal & bomb);
  EXPECT_THROW(decode_piece(w, piece(w, 7, 5), cache, causal & bomb), std::runtime_error);
  EXPECT_EQ(cache.seen(0), 9);
  EXPECT_TRUE(state_of(cache) == state_of(expected)) << "two tokens came before the bomb";
  for (int again = 0; again < 3; ++again) {
    EXPECT_THROW(decode_piece(w, piece(w, 9, 1), cache, causal & bomb), std::runtime_error);
    EXPECT_TRUE(state_of(cache) == state_of(expected));
  }
  armed = false;
  EXPECT_TRUE(same_bits(decode_piece(w, piece(w, 9, 20), cache, causal & bomb),
                        decode_piece(w, piece(w, 9, 20), expected, causal & bomb)));
  EXPECT_TRUE(state_of(cache) == state_of(expected));
}
TEST(Decode, R60AnExceptionTakesItsTokenBack) {
  const World w = cache_world({2, 4, 2, 40, 40, 8, 8}, 60);
  expect_thrown_tokens_gone(w, heed::Tova{}, 6);
  expect_thrown_tokens_gone(w, heed::HeavyHitters{}, 6);
  expect_thrown_tokens_gone(w, heed::Oldest{.sinks = 2}, 6);
  expect_thrown_tokens_gone(w, heed::Unbounded{}, 0);
}

}  // namespace

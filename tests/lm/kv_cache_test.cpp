// SPDX-License-Identifier: Apache-2.0
//
// What a decoder remembers: choices as a person types them, and a tiny random model that reads
// through caches of every kind.

#include "kv_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "model.hpp"
#include "sweep.hpp"
#include "tiny_model.hpp"

namespace lm {
namespace {

using Policy = CacheChoice::Policy;

const std::vector<int> kTokens{3, 0, 7, 7, 1, 10, 4, 2, 9, 5, 3, 8, 8, 6, 0, 1, 2, 10, 9, 4};
const char* const kPolicies[] = {"window", "window+2", "tova", "tova-head", "tova+1", "h2o",
                                 "h2o-layer"};

CacheChoice choose(const std::string& policy, Index budget, heed::Prefill prompt) {
  CacheChoice choice = CacheChoice::parse(policy + ":" + std::to_string(budget));
  choice.prompt = prompt;
  return choice;
}

// Vectors of all tokens, read in pieces of so many.
Matrix read(const Model& model, KvCache& cache, Index piece) {
  const std::span<const int> tokens(kTokens);
  Matrix all(Index(tokens.size()), model.config().width);
  for (Index first = 0; first < all.rows(); first += piece) {
    const Index count = std::min(piece, all.rows() - first);
    all.middleRows(first, count) =
        model.forward(tokens.subspan(std::size_t(first), std::size_t(count)), cache);
  }
  return all;
}

TEST(CacheChoice, ReadsWhatItWrites) {
  struct Case {
    const char* text;
    Policy policy;
    Index budget, sinks;
    heed::Scope scope;
  };
  using enum heed::Scope;
  for (const Case& c : {Case{"full", Policy::full, 0, 0, policy},
                        Case{"tova:256", Policy::tova, 256, 0, policy},
                        Case{"h2o:1", Policy::h2o, 1, 0, policy},
                        Case{"window:7", Policy::window, 7, 0, policy},
                        Case{"window+4:256", Policy::window, 256, 4, policy},
                        Case{"tova-head:64", Policy::tova, 64, 0, head},
                        Case{"h2o-layer:64", Policy::h2o, 64, 0, layer},
                        Case{"tova+4-head:64", Policy::tova, 64, 4, head}}) {
    const CacheChoice found = CacheChoice::parse(c.text);
    EXPECT_EQ(found.policy, c.policy) << c.text;
    EXPECT_EQ(found.budget, c.budget) << c.text;
    EXPECT_EQ(found.sinks, c.sinks) << c.text;
    EXPECT_EQ(found.scope, c.scope) << c.text;
    EXPECT_EQ(found.name(), c.text);
  }
}

TEST(CacheChoice, RefusesEverythingElse) {
  for (const char* text :
       {"", "tova", "tova:", "tova:0", "tova:-1", "tova:12x", "tova:1.5", "tova: 12", "Tova:12",
        "tova:99999999999999999999", "tova+:12", "tova+-1:12", "tova+x:12", "window+4", ":12",
        "full:12", "full-head", "-head:12", "tova-heads:12", "tova-head-layer:12", "tova-head+4:12",
        "tova:12-head", "tova:12:13", "lru:12"}) {
    EXPECT_THROW(CacheChoice::parse(text), Error) << text;
  }
}

TEST(SweepRow, IsAPolicyWithEachBudget) {
  const SweepRow tova = sweep_row("tova-head", {64, 128});
  ASSERT_EQ(tova.choices.size(), 2u);
  EXPECT_EQ(tova.policy, "tova-head");
  EXPECT_EQ(tova.choices[0].name(), "tova-head:64");
  EXPECT_EQ(tova.choices[1].name(), "tova-head:128");
  EXPECT_EQ(sweep_row("window+4", {64}).choices[0].sinks, 4);
  for (const CacheChoice& choice : tova.choices) {
    EXPECT_EQ(choice.prompt, heed::Prefill::stepwise);
  }
  const SweepRow full = sweep_row("full", {64, 128});
  ASSERT_EQ(full.choices.size(), 1u);
  EXPECT_EQ(full.choices[0].policy, Policy::full);
  for (const char* name : {"", "tova:64", "full-head", "full:64", "lru", "window+x", "tova-"}) {
    EXPECT_THROW(sweep_row(name, {64}), Error) << name;
  }
}

TEST(KvCache, WithRoomForAllIsTheFullOne) {
  const Threads threads(1);
  const Model model(tiny_weights(true), threads);
  const Index n = Index(kTokens.size());
  for (const heed::Prefill prompt : {heed::Prefill::one_shot, heed::Prefill::stepwise}) {
    for (const Index piece : {Index{1}, Index{7}, n}) {
      KvCache full = model.new_cache();
      const Matrix wanted = read(model, full, piece);
      for (const char* policy : kPolicies) {
        KvCache cache = model.new_cache(choose(policy, n, prompt));
        const Matrix found = read(model, cache, piece);
        EXPECT_LT((found - wanted).cwiseAbs().maxCoeff(), 1e-5f) << policy << " by " << piece;
        EXPECT_EQ(cache.tokens(), n);
        EXPECT_EQ(cache.first_held(), 1);
        EXPECT_EQ(cache.statistics(0, 0).evicted, 0);
      }
    }
  }
}

TEST(KvCache, HoldsNoMoreThanItsBudget) {
  const Threads threads(2);
  const Model model(tiny_weights(true), threads);
  constexpr Index kBudget = 6;
  for (const heed::Prefill prompt : {heed::Prefill::one_shot, heed::Prefill::stepwise}) {
    for (const char* policy : kPolicies) {
      KvCache cache = model.new_cache(choose(policy, kBudget, prompt));
      const std::span<const int> tokens(kTokens);
      std::size_t done = 0;
      for (const std::size_t count : {std::size_t{1}, std::size_t{4}, std::size_t{11},
                                      std::size_t{1}, std::size_t{3}}) {
        model.forward(tokens.subspan(done, count), cache);
        done += count;
        EXPECT_EQ(cache.tokens(), Index(done));
        for (Index layer = 0; layer < model.layers(); ++layer) {
          for (Index g = 0; g < model.config().kv_heads; ++g) {
            const heed::List<Index> positions = cache.positions(layer, g);
            EXPECT_EQ(positions.size, std::min(kBudget, Index(done))) << policy;
            for (Index i = 0; i < positions.size; ++i) {
              EXPECT_TRUE(positions[i] >= 0 && positions[i] < Index(done)) << policy;
              EXPECT_TRUE(i == 0 || positions[i - 1] < positions[i]) << policy;
            }
          }
        }
      }
      if (std::string(policy) == "window") {
        EXPECT_EQ(cache.recent_share(), 1);
        EXPECT_EQ(cache.first_held(), 0);
      }
      if (std::string(policy).find('+') != std::string::npos) {
        EXPECT_EQ(cache.first_held(), 1) << policy;
      }
    }
  }
}

// The attention alone, since Eigen's products of few rows differ from those of many. Single tokens
// are heed's decode; a large budget is worked on by all threads, a small one by the caller.
TEST(KvCache, StepwiseInPiecesIsOnePieceBitForBit) {
  const Config config = tiny_weights(true).config;
  const Index width = config.heads * config.dim, all = 700;
  const Matrix qkv = Matrix::Random(all, width + 2 * config.kv_heads * config.dim);
  const auto read = [&](KvCache& cache, int thread_count, Index piece) {
    const Threads threads(thread_count);
    Matrix out(all, width);
    for (Index first = 0; first < all; first += piece) {
      const Index count = std::min(piece, all - first);
      Matrix some(count, width);
      heed::Into into;
      into.out = heed::split_heads(some, config.heads);
      cache.attend(threads, 0, qkv.middleRows(first, count), into);
      out.middleRows(first, count) = some;
    }
    return out;
  };
  for (const Index budget : {5, 600}) {
    for (const char* policy : kPolicies) {
      const CacheChoice choice = choose(policy, budget, heed::Prefill::stepwise);
      KvCache whole(config, 1, choice);
      const Matrix wanted = read(whole, 1, all);
      for (const Index piece : {1, 3, 256}) {
        KvCache cache(config, 1, choice);
        EXPECT_TRUE(read(cache, 2, piece) == wanted) << choice.name() << " by " << piece;
        for (Index g = 0; g < config.kv_heads; ++g) {
          const heed::List<Index> a = whole.positions(0, g), b = cache.positions(0, g);
          EXPECT_TRUE(std::equal(a.data, a.data + a.size, b.data, b.data + b.size)) << policy;
        }
      }
    }
  }
}

TEST(KvCache, ReadsAPromptAsItsWaySays) {
  const Threads threads(1);
  const Model model(tiny_weights(true), threads);
  for (const heed::Prefill prompt : {heed::Prefill::one_shot, heed::Prefill::stepwise}) {
    KvCache cache = model.new_cache(choose("tova", 5, prompt));
    EXPECT_EQ(cache.one_piece(), prompt == heed::Prefill::one_shot);
    const Matrix found = read(model, cache, Index(kTokens.size()));
    KvCache full = model.new_cache();
    const Matrix wanted = read(model, full, Index(kTokens.size()));
    // In one shot every token sees the whole prompt before it; step by step it does not.
    const float difference = (found - wanted).cwiseAbs().maxCoeff();
    EXPECT_EQ(difference < 1e-5f, prompt == heed::Prefill::one_shot) << difference;
  }
  EXPECT_FALSE(model.new_cache().one_piece());
}

TEST(KvCache, RemembersHowLongTokensStayed) {
  const Threads threads(1);
  const Model model(tiny_weights(true), threads);
  CacheChoice choice = choose("window", 6, heed::Prefill::stepwise);
  KvCache without = model.new_cache(choice);
  choice.history = true;
  KvCache cache = model.new_cache(choice);
  for (KvCache* one : {&without, &cache}) read(model, *one, 7);
  EXPECT_EQ(without.survival(1, 0).size, 0);
  const heed::List<Index> survival = cache.survival(1, 0);
  ASSERT_EQ(survival.size, Index(kTokens.size()));
  for (Index i = 0; i < survival.size; ++i) {
    EXPECT_EQ(survival[i], i < survival.size - 6 ? 6 : -1) << i;
  }
}

TEST(KvCache, RefusesABudgetThatKeepsNothingFree) {
  const Threads threads(1);
  const Model model(tiny_weights(true), threads);
  EXPECT_THROW(model.new_cache(CacheChoice::parse("window+4:4")), Error);
  EXPECT_NO_THROW(model.new_cache(CacheChoice::parse("window+4:5")));
}

}  // namespace
}  // namespace lm

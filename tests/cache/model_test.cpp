// SPDX-License-Identifier: Apache-2.0
//
// F15: random programs of decode, chunks, one-shot prompts, truncation, reset, fork, save and
// restore, and refused calls, against a plain list (support/cache_model.hpp). 20,000 programs, or
// 1,000,000 with HEED_RELEASE=1.

#include <gtest/gtest.h>

#include "support/cache_model.hpp"
#include "support/cache_world.hpp"

namespace {

using namespace support;
using heed::causal;
using heed::Prefill;

std::int64_t adopted = 0, decisions = 0;

template <class E>
class Program {
 public:
  Program(const ModelOptions& o, Index batch, E eviction, std::uint64_t seed)
      : random_(seed),
        options_(o),
        batch_(batch),
        cache_(cache_options(o, batch), eviction),
        model_(size(batch), ModelEntry(o)) {
    for (Index h = 0; h < o.heads; ++h) slopes_.push_back(float(ModelEntry::slope(h)));
  }

  void run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFatalFailure(); ++i) {
      const double r = random_.uniform();
      if (r < 0.45) {
        step(random_.integer(1, 3), false);
      } else if (r < 0.6) {
        step(random_.integer(1, 9), true);
      } else if (r < 0.72) {
        one_shot(random_.integer(1, 9));
      } else if (r < 0.8) {
        truncate();
      } else if (r < 0.85) {
        reset();
      } else if (r < 0.9) {
        fork();
      } else if (r < 0.95) {
        save();
      } else {
        refused();
      }
      check();
    }
  }

 private:
  static heed::CacheOptions cache_options(const ModelOptions& o, Index batch) {
    heed::CacheOptions c;
    c.batch = batch, c.heads = o.heads, c.kv_heads = o.kv_heads, c.dim = o.dim;
    c.budget = o.kind == Kind::unbounded ? 0 : o.budget;
    c.scope = o.per_head ? heed::Scope::head : heed::Scope::layer;
    c.sinks = o.sinks;
    c.protect_current = o.recent > 0 && o.kind != Kind::heavy;
    return c;
  }

  // Tensors for `count` tokens of every entry; entry b uses the first lengths[b].
  struct Tokens {
    World world;
    std::vector<Index> lengths, positions;
  };
  Tokens tokens(Index count) {
    Tokens t{cache_world({batch_, options_.heads, options_.kv_heads, count, count, options_.dim,
                          options_.dim}, random_.bits()), {}, {}};
    for (Index b = 0; b < batch_; ++b) {
      t.lengths.push_back(batch_ == 1 || random_.chance(0.5) ? count : random_.integer(0, count));
    }
    return t;
  }
  std::vector<double> vectors(const std::vector<float>& x, Index b, Index heads, Index count,
                              Index t) {
    std::vector<double> result;
    for (Index h = 0; h < heads; ++h) {
      for (Index d = 0; d < options_.dim; ++d) {
        result.push_back(double(x[size(((b * heads + h) * count + t) * options_.dim + d)]));
      }
    }
    return result;
  }
  ModelToken token(const Tokens& in, Index b, Index count, Index t) {
    ModelToken result;
    result.k = vectors(in.world.data.k, b, options_.kv_heads, count, t);
    result.v = vectors(in.world.data.v, b, options_.kv_heads, count, t);
    return result;
  }
  void compare(const Outputs& out, Index b, Index count, Index t,
               const std::vector<double>& right) {
    for (Index h = 0; h < options_.heads; ++h) {
      for (Index d = 0; d < options_.dim; ++d) {
        const float found =
            out.out[size(((b * options_.heads + h) * count + t) * options_.dim + d)];
        ASSERT_NEAR(double(found), right[size(h * options_.dim + d)], 1e-4);
      }
    }
  }

  // Token by token, by decode or stepwise. To see each decision, one call per token.
  void step(Index count, bool stepwise) {
    const Tokens in = tokens(count);
    for (Index t = 0; t < count; ++t) {
      const Piece p = piece(in.world, t, 1);
      std::vector<Index> here;
      for (Index b = 0; b < batch_; ++b) here.push_back(t < in.lengths[size(b)]);
      const heed::Lengths lengths{.q = here, .kv = here};
      const Outputs out =
          stepwise ? prefill_piece(in.world, p, cache_, Prefill::stepwise, causal,
                                   heed::Alibi{slopes_}, lengths)
                   : decode_piece(in.world, p, cache_, causal, heed::Alibi{slopes_}, lengths);
      for (Index b = 0; b < batch_; ++b) {
        if (!here[size(b)]) continue;
        ModelEntry& model = model_[size(b)];
        const std::vector<double> right =
            model.step(model.next, vectors(in.world.data.q, b, options_.heads, count, t),
                       token(in, b, count, t),
                       [&](Index bank, Index mine) { return adopt(b, bank, mine); });
        compare(out, b, 1, 0, right);
      }
    }
  }
  // The one that the cache dropped, where the two scores are as good as equal.
  Index adopt(Index b, Index bank, Index mine) {
    const auto& list = model_[size(b)].banks[size(bank)];
    const std::vector<Index> kept = held(cache_, b, options_.per_head ? bank : 0);
    ++decisions;
    for (Index i = 0; i < Index(list.size()); ++i) {
      const Index position = list[size(i)].position;
      if (std::find(kept.begin(), kept.end(), position) != kept.end()) continue;
      if (i != mine && std::abs(model_[size(b)].worth(list[size(i)]) -
                                model_[size(b)].worth(list[size(mine)])) < 1e-5) {
        ++adopted;
        return i;
      }
      return mine;
    }
    return mine;
  }

  void one_shot(Index count) {
    const Tokens in = tokens(count);
    const Outputs out =
        prefill_piece(in.world, piece(in.world, 0, count), cache_, Prefill::one_shot, causal,
                      heed::Alibi{slopes_}, heed::Lengths{.q = in.lengths, .kv = in.lengths});
    for (Index b = 0; b < batch_; ++b) {
      ModelEntry& model = model_[size(b)];
      const Index first = model.next;
      for (Index t = 0; t < in.lengths[size(b)]; ++t)
        model.append(model.next, token(in, b, count, t));
      for (Index t = 0; t < in.lengths[size(b)]; ++t) {
        const std::vector<double> right =
            model.attend(first + t, vectors(in.world.data.q, b, options_.heads, count, t), 0, 0);
        compare(out, b, count, t, right);
      }
      if (in.lengths[size(b)] > 0) model.shrink();
    }
  }
  void truncate() {
    const Index b = random_.integer(0, batch_ - 1);
    ModelEntry& model = model_[size(b)];
    const Index to = random_.integer(0, model.next);
    const bool refuses = to < model.next &&
                         (to < model.evicted_until || options_.kind == Kind::heavy);
    const std::string before = state_of(cache_);
    bool refused = false;
    try {
      cache_.truncate(b, to);
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    ASSERT_EQ(refused, refuses);
    if (refused) {
      ASSERT_EQ(state_of(cache_), before);
      return;
    }
    if (to >= model.next) return;
    Index removed = 0;
    for (auto& bank : model.banks) {
      removed = 0;
      while (!bank.empty() && bank.back().position >= to) {
        bank.pop_back();
        ++removed;
      }
    }
    model.seen -= removed;
    model.next = to;
  }
  void reset() {
    const Index b = random_.integer(0, batch_ - 1);
    cache_.reset(b);
    model_[size(b)] = ModelEntry(options_);
  }
  void fork() {
    auto other = cache_;
    if (random_.chance(0.5)) std::swap(other, cache_);
    step_alone(other);   // whatever happens to the fork does not show here
  }
  void step_alone(heed::Cache<E>& other) {
    const Tokens in = tokens(2);
    decode_piece(in.world, piece(in.world, 0, 2), other, causal);
  }
  void save() {
    std::stringstream file(state_of(cache_));
    auto other = cache_;
    step_alone(other);
    other.restore(file);
    ASSERT_EQ(state_of(other), state_of(cache_));
    cache_ = std::move(other);
  }
  void refused() {
    const std::string before = state_of(cache_);
    const Tokens in = tokens(1);
    const std::vector<Index> back(size(batch_), -1);
    const Piece p = piece(in.world, 0, 1);
    const Piece good{p.q, p.k, p.v};
    std::vector<float> out(in.world.data.q.size());
    heed::Into into;
    into.out = {out.data(), p.q.extent};
    EXPECT_THROW(heed::decode(into, good.q, good.q, good.v, cache_, heed::Window{0}),
                 std::invalid_argument);
    if (cache_.seen(0) > 0) {
      EXPECT_THROW(heed::decode(into, good.q, good.k, good.v, cache_,
                                heed::Positions{.q = back, .k = back}),
                   std::invalid_argument);
    }
    ASSERT_EQ(state_of(cache_), before);
  }

  void check() {
    for (Index b = 0; b < batch_; ++b) {
      const ModelEntry& model = model_[size(b)];
      ASSERT_EQ(cache_.seen(b), model.seen);
      ASSERT_EQ(cache_.next_position(b), model.next);
      for (Index i = 0; i < Index(model.banks.size()); ++i) {
        const auto& list = model.banks[size(i)];
        ASSERT_EQ(cache_.size(b, i), Index(list.size()));
        ASSERT_TRUE(options_.kind == Kind::unbounded || cache_.size(b, i) <= options_.budget);
        for (Index rank = 0; rank < Index(list.size()); ++rank) {
          ASSERT_EQ(cache_.positions(b, i)[rank], list[size(rank)].position);
          for (Index g = 0; g < options_.kv_heads; ++g) {
            if (options_.per_head && g != i) continue;
            for (Index d = 0; d < options_.dim; ++d) {
              const std::size_t at = size(g * options_.dim + d);
              ASSERT_EQ(double(cache_.key(b, g, rank)[d]), list[size(rank)].k[at]);
              ASSERT_EQ(double(cache_.value(b, g, rank)[d]), list[size(rank)].v[at]);
            }
          }
        }
      }
    }
  }

  Random random_;
  ModelOptions options_;
  Index batch_;
  heed::Cache<E> cache_;
  std::vector<ModelEntry> model_;
  std::vector<float> slopes_;
};

TEST(Model, RandomProgramsAgreeWithAPlainList) {
  const Index programs = release_run() ? 1'000'000 : 20'000;
  const std::uint64_t seed = run_seed();
  for (Index i = 0; i < programs; ++i) {
    Random random(seed + std::uint64_t(i) * 7919);
    ModelOptions o;
    o.kv_heads = random.integer(1, 2);
    o.heads = o.kv_heads * random.integer(1, 3);
    o.dim = random.integer(1, 5);
    o.per_head = random.chance(0.5);
    o.budget = random.integer(1, 9);
    o.sinks = random.chance(0.5) ? random.integer(0, o.budget - 1) : 0;
    const Index batch = random.integer(1, 2);
    const std::uint64_t own = random.bits();
    const int operations = release_run() ? 100 : 12;
    const auto run = [&](auto eviction) {
      Program<decltype(eviction)>(o, batch, eviction, own).run(operations);
    };
    const auto protect = [&] { o.recent = o.sinks + 2 <= o.budget && random.chance(0.3) ? 1 : 0; };
    switch (random.integer(0, 3)) {
      case 0:
        o.kind = Kind::unbounded;
        o.per_head = false;
        o.sinks = 0;
        run(heed::Unbounded{});
        break;
      case 1:
        o.kind = Kind::oldest;
        protect();
        run(heed::Oldest{});
        break;
      case 2:
        o.kind = Kind::tova;
        protect();
        run(heed::Tova{});
        break;
      default:
        o.kind = Kind::heavy;
        o.recent = random.integer(0, o.budget - 1 - o.sinks);
        run(heed::HeavyHitters{.recent = o.recent});
    }
    ASSERT_FALSE(HasFailure()) << "program " << i << " of HEED_SEED=" << seed;
  }
  std::printf("%lld evictions decided, %lld of them between scores closer than 1e-5\n",
              static_cast<long long>(decisions), static_cast<long long>(adopted));
  EXPECT_LT(adopted * 100, decisions);
}

}  // namespace

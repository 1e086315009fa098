// SPDX-License-Identifier: Apache-2.0
//
// What a decoder remembers of the tokens it has read: per layer a heed::Cache, which holds all of
// them or, with an eviction, a fixed number. This is where the model meets heed, and the only place
// that knows how the memory is kept.

#pragma once

#include <heed/heed.hpp>

#include <string>
#include <variant>
#include <vector>

#include "threads.hpp"
#include "weights.hpp"

namespace lm {

// Which tokens are remembered, as a person types it.
struct CacheChoice {
  enum class Policy { full, window, tova, h2o };

  Policy policy = Policy::full;
  Index budget = 0;  // tokens per layer, or per kv head under Scope::head; full: 0
  Index sinks = 0;   // the first tokens, which always stay
  heed::Scope scope = heed::Scope::policy;
  // How a prompt that is longer than the budget is read; single tokens always evict one by one.
  heed::Prefill prompt = heed::Prefill::one_shot;
  bool history = false;  // remember how long each token stayed: see KvCache::survival

  // "full", "tova:256", "h2o:256", "window:256", "window+4:256"; the number behind + is of sinks.
  // A policy may end in its scope: "tova-head:256", "h2o-layer:256". Throws Error for anything
  // else.
  static CacheChoice parse(const std::string& text);
  std::string policy_name() const;  // "window+4", "tova-head"
  std::string name() const;         // "window+4:256"
};

class KvCache {
 public:
  // Throws Error for a budget too small for what must stay.
  KvCache(const Config& config, std::size_t layers, const CacheChoice& choice = {});

  // Reads the keys and values of new tokens and lets their queries attend to what is held and to
  // each other, not later. qkv [tokens, (heads + 2 kv_heads) dim]; into.out [1, heads, tokens,
  // dim]. into.weights is for a text that is read in one piece, with nothing before it.
  void attend(const Threads& threads, std::size_t layer, const Matrix& qkv,
              const heed::Into& into);

  const CacheChoice& choice() const { return choice_; }
  Index tokens() const;                   // read so far
  Index bytes() const;                    // of keys and values, all layers
  // What a layer holds for a kv head: positions, ascending.
  heed::List<Index> positions(Index layer, Index kv_head) const;
  heed::CacheStatistics statistics(Index layer, Index kv_head) const;
  // How many tokens each one saw come before it went, -1 while it is held; by order of coming.
  // Empty without CacheChoice::history, and for a full cache.
  heed::List<Index> survival(Index layer, Index kv_head) const;
  // Of the tokens held, those among the last `budget` read: mean over layers and kv heads.
  double recent_share() const;
  // In how many layers and kv heads, of all, the first token is still held: 0 to 1.
  double first_held() const;

  // Whether a prompt must be read in one piece: its last token decides what stays.
  bool one_piece() const {
    return choice_.policy != CacheChoice::Policy::full &&
           choice_.prompt == heed::Prefill::one_shot;
  }

 private:
  using Layer = std::variant<heed::Cache<>, heed::Cache<heed::Oldest>, heed::Cache<heed::Tova>,
                             heed::Cache<heed::HeavyHitters>>;
  static Layer make(const Config& config, const CacheChoice& choice);
  // Of a number that statistics hold, over layers and kv heads.
  template <class F>
  double mean(F&& of) const;

  Config config_;
  CacheChoice choice_;
  std::vector<Layer> layers_;
};

}  // namespace lm

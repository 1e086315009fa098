// SPDX-License-Identifier: Apache-2.0
//
// One of four caches per layer, and the calls that they have in common.

#include "kv_cache.hpp"

#include <charconv>
#include <stdexcept>

namespace lm {
namespace {

struct Named {
  const char* name;
  CacheChoice::Policy policy;
};
constexpr Named kPolicies[] = {{"window", CacheChoice::Policy::window},
                               {"tova", CacheChoice::Policy::tova},
                               {"h2o", CacheChoice::Policy::h2o}};

struct Suffix {
  std::string_view text;
  heed::Scope scope;
};
constexpr Suffix kScopes[] = {{"-layer", heed::Scope::layer}, {"-head", heed::Scope::head}};

// The whole text as a number from 0 to 2^40, or -1.
Index whole_number(std::string_view text) {
  Index value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return good && value <= Index{1} << 40 ? value : -1;
}

}  // namespace

CacheChoice CacheChoice::parse(const std::string& text) {
  CacheChoice choice;
  if (text == "full") return choice;
  const std::size_t colon = text.find(':');
  std::string_view policy = std::string_view(text).substr(0, colon);
  for (const Suffix& suffix : kScopes) {
    if (!policy.ends_with(suffix.text)) continue;
    policy.remove_suffix(suffix.text.size());
    choice.scope = suffix.scope;
    break;
  }
  const std::size_t plus = policy.find('+');
  for (const Named& known : kPolicies) {
    if (policy.substr(0, plus) != known.name) continue;
    choice.policy = known.policy;
    if (plus != std::string::npos) choice.sinks = whole_number(policy.substr(plus + 1));
    if (colon != std::string::npos) {
      choice.budget = whole_number(std::string_view(text).substr(colon + 1));
    }
  }
  if (choice.policy == Policy::full || choice.budget < 1 || choice.sinks < 0) {
    throw Error("the cache is \"" + text + "\"; it is full, or a policy and its budget, like "
                "tova:256, h2o:256, window:256 or, with the first 4 tokens, window+4:256; a policy "
                "may end in -layer or -head");
  }
  return choice;
}

std::string CacheChoice::policy_name() const {
  std::string name = "full";
  for (const Named& known : kPolicies) {
    if (policy == known.policy) name = known.name;
  }
  if (sinks > 0) name += "+" + std::to_string(sinks);
  for (const Suffix& suffix : kScopes) {
    if (policy != Policy::full && scope == suffix.scope) name += suffix.text;
  }
  return name;
}
std::string CacheChoice::name() const {
  return policy == Policy::full ? policy_name() : policy_name() + ":" + std::to_string(budget);
}

KvCache::Layer KvCache::make(const Config& config, const CacheChoice& choice) {
  heed::CacheOptions options;
  options.heads = config.heads;
  options.kv_heads = config.kv_heads;
  options.dim = config.dim;
  if (choice.policy == CacheChoice::Policy::full) return heed::Cache(options);
  options.budget = choice.budget;
  options.sinks = choice.sinks;
  options.scope = choice.scope;
  options.history = choice.history;
  switch (choice.policy) {
    case CacheChoice::Policy::tova: return heed::Cache(options, heed::Tova{});
    case CacheChoice::Policy::h2o: return heed::Cache(options, heed::HeavyHitters{});
    default: return heed::Cache(options, heed::Oldest{});
  }
}

KvCache::KvCache(const Config& config, std::size_t layers, const CacheChoice& choice)
    : config_(config), choice_(choice) {
  layers_.reserve(layers);
  try {
    for (std::size_t i = 0; i < layers; ++i) layers_.push_back(make(config, choice));
  } catch (const std::invalid_argument& e) {
    throw Error("the cache " + choice.name() + " cannot be: " + e.what());
  }
}

void KvCache::attend(const Threads& threads, std::size_t layer, const Matrix& qkv,
                     const heed::Into& into) {
  const Index kv_width = config_.kv_heads * config_.dim;
  const auto q = heed::split_heads(qkv.leftCols(config_.heads * config_.dim), config_.heads);
  const auto k = heed::split_heads(qkv.middleCols(config_.heads * config_.dim, kv_width),
                                   config_.kv_heads);
  const auto v = heed::split_heads(qkv.rightCols(kv_width), config_.kv_heads);
  std::visit(
      [&](auto& cache) {
        heed::Into rest = into;
        if (into.weights.to.data != nullptr) {  // a cache does not tell weights, attend does
          if (cache.seen() > 0) {
            throw Error("attention weights are drawn of a text that is read in one piece");
          }
          heed::attend(threads.device(), into, q, k, v, heed::causal, config_.rope);
          rest.weights = {};
        }
        const bool full = choice_.policy == CacheChoice::Policy::full;
        const heed::Prefill how = full ? heed::Prefill::one_shot : choice_.prompt;
        if (qkv.rows() == 1) {
          heed::decode(threads.device(), rest, q, k, v, cache, heed::causal, config_.rope);
        } else {
          heed::prefill(threads.device(), rest, q, k, v, cache, how, heed::causal, config_.rope);
        }
      },
      layers_[layer]);
}

Index KvCache::tokens() const {
  if (layers_.empty()) return 0;
  return std::visit([](const auto& cache) { return cache.seen(); }, layers_.back());
}
Index KvCache::bytes() const {
  Index sum = 0;
  for (const Layer& layer : layers_) {
    sum += std::visit([](const auto& cache) { return cache.bytes(); }, layer);
  }
  return sum;
}

heed::List<Index> KvCache::positions(Index layer, Index kv_head) const {
  return std::visit([&](const auto& cache) { return cache.positions(0, kv_head); },
                    layers_[static_cast<std::size_t>(layer)]);
}

heed::CacheStatistics KvCache::statistics(Index layer, Index kv_head) const {
  return std::visit([&](const auto& cache) { return cache.statistics(0, kv_head); },
                    layers_[static_cast<std::size_t>(layer)]);
}

heed::List<Index> KvCache::survival(Index layer, Index kv_head) const {
  return std::visit([&](const auto& cache) { return cache.survival(0, kv_head); },
                    layers_[static_cast<std::size_t>(layer)]);
}

double KvCache::recent_share() const {
  return mean([](const heed::CacheStatistics& s) { return s.recent_share; });
}
double KvCache::first_held() const {
  return mean([](const heed::CacheStatistics& s) { return s.first_held ? 1.0 : 0.0; });
}

template <class F>
double KvCache::mean(F&& of) const {
  double sum = 0;
  const Index layers = static_cast<Index>(layers_.size());
  for (Index i = 0; i < layers; ++i) {
    for (Index g = 0; g < config_.kv_heads; ++g) sum += of(statistics(i, g));
  }
  return sum / static_cast<double>(layers * config_.kv_heads);
}

}  // namespace lm

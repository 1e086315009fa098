// SPDX-License-Identifier: Apache-2.0
//
// Decoding with bounded memory. A stream of 48 tokens passes through caches of 8 slots; each step
// appends its token, attends over what is held, and evicts one. Two tokens are salient: queries
// look for them. TOVA keeps what the current query attends, H2O what all queries have attended, a
// window the newest, and a window with sinks the first ones too.
//
// Every line is a step (every fourth is shown), every column a position: # held, . gone.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <cstdio>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;
using heed::Index;

constexpr Index kTokens = 48, kDim = 8;
constexpr Index kSalient[] = {5, 19};

template <class Eviction>
void show(const char* name, Eviction eviction) {
  heed::Cache cache{{.heads = 2, .kv_heads = 1, .dim = kDim, .budget = 8}, eviction};
  Tensor q(1, 2, 1, kDim), k(1, 1, 1, kDim), v(1, 1, 1, kDim), out(1, 2, 1, kDim);
  std::printf("%s\n", name);
  for (Index t = 0; t < kTokens; ++t) {
    // Keys point along one axis or another; queries along axis 0, as salient keys do.
    q.setZero();
    k.setZero();
    v.setZero();
    const bool salient = t == kSalient[0] || t == kSalient[1];
    q(0, 0, 0, 0) = q(0, 1, 0, 0) = 6;
    k(0, 0, 0, salient ? 0 : 1 + t % 7) = 2;
    v(0, 0, 0, 0) = salient ? 1.0f : 0.0f;   // the output's component 0: attention to salient keys

    // The Into form writes into `out` and allocates nothing.
    heed::decode(heed::Into{.out = out}, q, k, v, cache, heed::causal, heed::Alibi{});

    if (t % 4 != 3) continue;
    std::printf("%4td  ", t);
    const auto held = cache.positions();
    for (Index p = 0, i = 0; p <= t; ++p) {
      const bool here = i < held.size && held[i] == p;
      std::printf("%c", here ? '#' : '.');
      i += here;
    }
    std::printf("%*s %3.0f %% of the attention is on salient keys\n", int(kTokens - t), "",
                double(100 * out(0, 0, 0, 0)));
  }
  const heed::CacheStatistics s = cache.statistics();
  std::printf("      recent tokens %.0f %%, first token %s, evicted ones saw %.1f tokens come; "
              "%td bytes\n\n",
              100 * s.recent_share, s.first_held ? "held" : "gone", s.mean_survival, cache.bytes());
}

int main() {
  std::printf("salient tokens: %td and %td\n\n", kSalient[0], kSalient[1]);
  show("Tova{}: the key that the current query attends least goes", heed::Tova{});
  show("HeavyHitters{.recent = 4}", heed::HeavyHitters{.recent = 4});
  show("Oldest{}: a window", heed::Oldest{});
  show("Oldest{.sinks = 2}: a window with sinks", heed::Oldest{.sinks = 2});
}

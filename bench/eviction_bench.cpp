// SPDX-License-Identifier: Apache-2.0
//
// What an eviction costs on top of plain decoding over the same number of keys: append, attend,
// observe, evict, with the slot used anew.
//
//   over_plain   time of a step of a full cache of `len` tokens / time of a plain step over as many
//                keys (an unbounded cache, truncated back after each step), samples alternating

#include "shapes.hpp"

namespace {

using namespace heed_bench;

template <class E, class... Ps>
void steps(benchmark::State& state, const Problem& p, E eviction, heed::Scope scope,
           const Ps&... policies) {
  const heed::CacheOptions shape{.heads = p.heads, .kv_heads = p.kv_heads, .dim = p.dim};
  heed::CacheOptions bounded = shape;
  bounded.budget = p.len;
  bounded.scope = scope;
  heed::Cache plain{shape};
  heed::Cache cache{bounded, eviction};
  {
    Tensors prompt(p);
    heed::prefill(*prompt.q, *prompt.k, *prompt.v, plain, heed::causal & heed::Window{1});
    heed::prefill(*prompt.q, *prompt.k, *prompt.v, cache, heed::causal & heed::Window{1});
  }
  Tensors next({p.heads, p.kv_heads, 256, p.dim});
  heed::Into into;
  into.out = {next.out->data(), {1, p.heads, 1, p.dim}};
  std::vector<double> plain_times, times;
  Index t = 0;
  const auto step = [&](auto& to, const auto&... with) {
    const auto token = [&](Eigen::TensorMap<Tensor>& x, Index heads) {
      return heed::View<const float>(x.data() + t * p.dim, {1, heads, 1, p.dim},
                                     {heads * 256 * p.dim, 256 * p.dim, p.dim});
    };
    const double start = cpu_seconds();
    heed::decode(into, token(*next.q, p.heads), token(*next.k, p.kv_heads),
                 token(*next.v, p.kv_heads), to, with...);
    return cpu_seconds() - start;
  };
  for (int i = 0; i < 20; ++i, ++t) step(cache, policies...);
  for (auto _ : state) {
    t = (t + 1) % 256;
    plain_times.push_back(step(plain));
    plain.truncate(0, p.len);
    times.push_back(step(cache, policies...));
    state.SetIterationTime(times.back());
  }
  state.counters["over_plain"] = median(times) / median(plain_times);
  state.counters["plain_us"] = 1e6 * median(plain_times);
}

void add(const std::string& policy, const Problem& p, auto run) {
  benchmark::RegisterBenchmark(("eviction/policy:" + policy + "/" + p.name()).c_str(), run)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->MinTime(0.3);
}

const int registered = [] {
  describe_build();
  using heed::Scope;
  for (const Index heads : {32, 8}) {
    for (const Index dim : {64, 128}) {
      for (const Index len : {512, 4096, 32768}) {
        const Problem p{heads, 8, len, dim};
        const auto each = [&](const std::string& name, auto eviction, Scope scope) {
          add(name, p, [=](benchmark::State& s) { steps(s, p, eviction, scope); });
        };
        each("window", heed::Oldest{}, Scope::layer);
        each("window+4", heed::Oldest{.sinks = 4}, Scope::layer);
        each("tova", heed::Tova{}, Scope::layer);
        each("tova_head", heed::Tova{}, Scope::head);
        each("h2o", heed::HeavyHitters{}, Scope::head);
        add("tova+cope", p, [p](benchmark::State& s) {
          const Matrix table = position_table(kPositions, p.dim);
          steps(s, p, heed::Tova{}, Scope::layer, heed::causal, heed::Cope{table});
        });
      }
    }
  }
  return 0;
}();

}  // namespace

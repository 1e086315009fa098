// SPDX-License-Identifier: Apache-2.0
//
// One decode step over a cache: plain, with policies, with two threads.
//
//   bandwidth_share  bytes of keys and values / time / the rate at which this thread just read a
//                    block of that size (bandwidth.hpp)
//   fma_share        the step's flops / time / the calibrated multiply-add rate; the larger of the
//                    two shares says what limits a step
//   over_plain       time / time of the plain step over as many keys, samples alternating
//   plain_2_threads  is in wall time, over_plain being the inverse of its speed-up
//
// Steps are timed in an unbounded cache that is truncated back after each, so the number of keys
// stays: what is timed is append and attend. Slots lie in order, as after a prompt.

#include "bandwidth.hpp"
#include "shapes.hpp"

#include <unsupported/Eigen/CXX11/ThreadPool>

namespace {

using namespace heed_bench;

// A cache of len tokens, and the next one.
struct Decoding {
  Problem p;
  Tensors next;
  heed::Cache<> cache;
  heed::Into into;

  Decoding(const Problem& problem, double gate)
      : p(problem),
        next({p.heads, p.kv_heads, 1, p.dim}, gate),
        cache({.heads = p.heads, .kv_heads = p.kv_heads, .dim = p.dim}) {
    Tensors prompt(p, gate);   // it attends nothing but itself: only its keys and values matter
    heed::prefill(*prompt.q, *prompt.k, *prompt.v, cache, heed::causal & heed::Window{1});
    into.out = *next.out;
  }
  double flops() const { return 4.0 * double(p.heads * p.len * p.dim); }
  double bytes() const { return 8.0 * double(p.kv_heads * p.len * p.dim); }
  template <class Device, class... Ps>
  double seconds_of_step(const Device& device, const Ps&... policies) {
    constexpr bool kOneThread = std::is_same_v<Device, heed::Serial>;
    const auto now = kOneThread ? cpu_seconds : wall_seconds;
    const double start = now();
    heed::decode(device, into, *next.q, *next.k, *next.v, cache, policies...);
    const double took = now() - start;
    cache.truncate(0, p.len);
    return took;
  }
};

// Alternating samples of plain and the other, for about half a second.
template <class Device, class... Ps>
void step(benchmark::State& state, const Problem& p, double gate, const Device& device,
          const Ps&... policies) {
  Decoding d(p, gate);
  const Bandwidth memory(Index(d.bytes()));
  Calibration calibration;
  const double before = memory.rate();
  std::vector<double> plain, other;
  d.seconds_of_step(heed::Serial{}), d.seconds_of_step(device, policies...);
  for (auto _ : state) {
    plain.push_back(d.seconds_of_step(heed::Serial{}));
    const double took = d.seconds_of_step(device, policies...);
    other.push_back(took);
    state.SetIterationTime(took);
  }
  const double rate = (before + memory.rate()) / 2;
  calibration.describe(state);
  state.counters["fma_share"] = calibration.share(d.flops(), median(other));
  state.counters["over_plain"] = median(other) / median(plain);
  state.counters["bandwidth_share"] = d.bytes() / median(other) / rate;
  state.counters["GB_per_s"] = 1e-9 * d.bytes() / median(other);
  state.counters["read_GB_per_s"] = 1e-9 * rate;
}

void add(const std::string& policy, const Problem& p, auto run) {
  benchmark::RegisterBenchmark(("decode/policy:" + policy + "/" + p.name()).c_str(), run)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->MinTime(0.3);
}

const int registered = [] {
  describe_build();
  static Eigen::ThreadPool pool(2);
  static const Eigen::ThreadPoolDevice two(&pool, 2);
  for (const Index kv_heads : {8, 8 * 4}) {
    for (const Index dim : {64, 128}) {
      for (const Index len : {512, 4096, 32768}) {
        const bool grouped = kv_heads == 8;
        const Problem p{grouped ? 32 : 8, 8, len, dim};
        add("plain", p, [p](benchmark::State& s) { step(s, p, 0.5, heed::Serial{}); });
        add("cope", p, [p](benchmark::State& s) {
          const Matrix table = position_table(kPositions, p.dim);
          step(s, p, 0.5, heed::Serial{}, heed::causal, heed::Cope{table});
        });
        add("cope_small_gates", p, [p](benchmark::State& s) {
          const Matrix table = position_table(kPositions, p.dim);
          step(s, p, 0.03, heed::Serial{}, heed::causal, heed::Cope{table});
        });
        add("alibi", p, [p](benchmark::State& s) {
          step(s, p, 0.5, heed::Serial{}, heed::causal, heed::Alibi{});
        });
        add("rope", p, [p](benchmark::State& s) {
          step(s, p, 0.5, heed::Serial{}, heed::causal,
               heed::Rope{.pairing = heed::Pairing::halves});
        });
        add("plain_2_threads", p, [p](benchmark::State& s) { step(s, p, 0.5, two); });
      }
    }
  }
  return 0;
}();

}  // namespace

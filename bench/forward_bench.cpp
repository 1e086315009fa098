// SPDX-License-Identifier: Apache-2.0
//
// Whole forward calls: plain causal attention and CoPE over lengths, widths and head counts; two
// threads against one; and the same job unfused, as whole-matrix Eigen expressions.
//
//   forward/...   thread CPU time; fma_share: useful flops over the calibrated rate
//   threads/...   wall time, one and two threads in turn; speed_up: median of the pairs' ratios
//   unfused/...   thread CPU time

#include "shapes.hpp"
#include "memory.hpp"
#include "unfused.hpp"

namespace heed_bench {
namespace {

enum class Policy { plain, cope };

std::string name_of(const char* what, Policy policy, const Problem& p) {
  return std::string(what) + "/policy:" + (policy == Policy::plain ? "plain" : "cope") + "/" +
         p.name();
}

template <class Device>
void run(const Device& device, Tensors& t, Policy policy, const Matrix& table) {
  const heed::Into into{.out = *t.out};
  if (policy == Policy::plain) {
    heed::attend(device, into, *t.q, *t.k, *t.v, heed::causal);
  } else {
    heed::attend(device, into, *t.q, *t.k, *t.v, heed::causal, heed::Cope{table});
  }
}

void count_tokens(benchmark::State& state, const Problem& p) {
  state.counters["tokens_per_second"] =
      benchmark::Counter(double(p.len), benchmark::Counter::kIsIterationInvariantRate);
}

void forward(benchmark::State& state, Policy policy, const Problem& p) {
  Tensors t(p);
  const Matrix table = position_table(kPositions, p.dim);
  const auto call = [&] { run(heed::Serial{}, t, policy, table); };
  const std::size_t scratch = Memory::peak_of(call);
  Calibration calibration;
  const double time = time_loop(state, call);
  calibration.describe(state);
  state.counters["fma_share"] = calibration.share(p.flops(), time);
  count_tokens(state, p);
  state.counters["scratch_kib"] = double(scratch) / 1024;
}

void threads(benchmark::State& state, Policy policy, const Problem& p) {
  Tensors t(p);
  const Matrix table = position_table(kPositions, p.dim);
  Eigen::ThreadPool pool(2);
  const Eigen::ThreadPoolDevice device(&pool, 2);
  run(device, t, policy, table);
  std::vector<double> ratios;
  Calibration calibration;
  for (auto _ : state) {
    const double start = wall_seconds();
    run(heed::Serial{}, t, policy, table);
    const double between = wall_seconds();
    run(device, t, policy, table);
    const double two = wall_seconds() - between;
    state.SetIterationTime(two);
    ratios.push_back((between - start) / two);
  }
  calibration.describe(state);
  count_tokens(state, p);
  state.counters["speed_up"] = median(ratios);
  state.counters["speed_up_low"] = quantile(ratios, 0.25);
  state.counters["speed_up_high"] = quantile(ratios, 0.75);
}

// A yardstick that computes something else measures nothing.
bool agrees(Tensors& t, const Problem& p, Policy policy, const Matrix& table) {
  const Tensor unfused = *t.out;
  run(heed::Serial{}, t, policy, table);
  for (Index i = 0; i < p.heads * p.len * p.dim; ++i) {
    if (!(std::abs(unfused.data()[i] - t.out->data()[i]) < 1e-3f)) return false;
  }
  return true;
}

void unfused(benchmark::State& state, Policy policy, const Problem& p) {
  Tensors t(p);
  const Matrix table = position_table(kPositions, p.dim);
  Calibration calibration;
  const double time = time_loop(
      state, [&] { attend_unfused(t, p, policy == Policy::plain ? nullptr : &table); });
  calibration.describe(state);
  state.counters["fma_share"] = calibration.share(p.flops(), time);
  count_tokens(state, p);
  if (p.len <= 1024 && !agrees(t, p, policy, table)) {
    state.SkipWithError("the unfused version and heed disagree");
  }
}

template <class Function>
benchmark::internal::Benchmark* add(const char* what, Function function, Policy policy,
                                    const Problem& p) {
  return benchmark::RegisterBenchmark(
             name_of(what, policy, p).c_str(),
             [=](benchmark::State& state) { function(state, policy, p); })
      ->Unit(benchmark::kMillisecond);
}

int add_all() {
  describe_build();
  for (const Index dim : {64, 128}) {
    for (const Index len : {512, 1024, 2048, 4096, 8192}) {
      add("forward", forward, Policy::plain, {8, 8, len, dim});
      add("forward", forward, Policy::plain, {8, 2, len, dim});
      if (len == 1024 || len == 4096) {
        add("forward", forward, Policy::plain, {8, 8, len, dim, 64});
      }
      if (len > 4096) continue;
      add("forward", forward, Policy::cope, {8, 8, len, dim});
      for (const Policy policy : {Policy::plain, Policy::cope}) {
        const Problem p{8, 8, len, dim};
        add("threads", threads, policy, p)->UseManualTime()->Iterations(pairs_for(p.flops()));
        add("unfused", unfused, policy, p);
      }
    }
  }
  return 0;
}
[[maybe_unused]] const int added = add_all();

}  // namespace
}  // namespace heed_bench

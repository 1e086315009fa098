// SPDX-License-Identifier: Apache-2.0
//
// Training steps: attend_saving and attend_backward of plain causal attention and of policies with
// parameters. A policy and plain attention take turns on the same tensors, in the order A B B A.
//
//   backward/...   thread CPU time of a step; fma_share: 3.5 times the forward call's useful flops
//                  over the calibrated rate; over_plain: median of the pairs' ratios;
//                  forward_share: the part of the step that attend_saving takes
//   threads/...    wall time, one and two threads in turn; speed_up: median of the pairs' ratios
//   memory/...     kib: the most that one step holds beyond its operands, dout included; kib_per_
//                  token must not grow with the length

#include "shapes.hpp"
#include "memory.hpp"

namespace heed_bench {
namespace {

using heed::causal;

struct Training {
  Tensors t;
  Aligned dout, dq, dk, dv;
  std::vector<float> lse;

  Training(const Problem& p, double gate)
      : t(p, gate),
        dout(p.heads, p.len, p.dim, p.align),
        dq(p.heads, p.len, p.dim, p.align),
        dk(p.kv_heads, p.len, p.dim, p.align),
        dv(p.kv_heads, p.len, p.dim, p.align),
        lse(std::size_t(p.heads * p.len)) {
    Normal(5).fill(dout->data(), dout->size());
  }
  template <class Device, class... Ps>
  void forward(const Device& device, const Ps&... policies) {
    heed::Into into;
    into.out = *t.out;
    into.lse = rows();
    heed::attend(device, into, *t.q, *t.k, *t.v, policies...);
  }
  template <class Device, class... Ps>
  void step(const Device& device, const Ps&... policies) {
    forward(device, policies...);
    const heed::GradientsInto into{.q = *dq, .k = *dk, .v = *dv, .gate_keys = {}};
    benchmark::DoNotOptimize(heed::attend_backward(device, into, *t.q, *t.k, *t.v, *t.out, rows(),
                                                   *dout, policies...));
  }

 private:
  heed::RowView rows() {
    return {lse.data(), {1, t.q->dimension(1), t.q->dimension(2)}};
  }
};

// A backward pass that leaves a gradient at zero measures nothing.
bool learns(Training& training) {
  double sum = 0;
  for (auto* d : {&training.dq, &training.dk, &training.dv}) {
    double square = 0;
    for (Index i = 0; i < (*d)->size(); ++i) square += double((*d)->data()[i] * (*d)->data()[i]);
    if (!(square > 0)) return false;
    sum += square;
  }
  return std::isfinite(sum);
}

template <class F>
double timed(const F& f) {
  const double start = cpu_seconds();
  f();
  return cpu_seconds() - start;
}

// setup(p, use) makes the policies and calls use(policies...).
template <class Setup>
void backward(benchmark::State& state, const Problem& p, const Setup& setup, double gate) {
  Training training(p, gate);
  setup(p, [&](const auto&... policies) {
    const auto with = [&] { training.step(heed::Serial{}, policies...); };
    const auto plain = [&] { training.step(heed::Serial{}, causal); };
    const auto forward = [&] { training.forward(heed::Serial{}, policies...); };
    plain();
    state.counters["scratch_kib"] = double(Memory::peak_of(with)) / 1024;
    std::vector<double> times, ratios, shares;
    Calibration calibration;
    bool swap = false;
    for (auto _ : state) {
      double a = 0, b = 0;
      if (swap) b = timed(with);
      a = timed(plain);
      if (!swap) b = timed(with);
      swap = !swap;
      times.push_back(b);
      ratios.push_back(b / a);
      shares.push_back(timed(forward) / b);
      state.SetIterationTime(b);
    }
    calibration.describe(state);
    state.counters["over_plain"] = median(ratios);
    state.counters["over_plain_low"] = quantile(ratios, 0.25);
    state.counters["over_plain_high"] = quantile(ratios, 0.75);
    state.counters["fma_share"] = calibration.share(3.5 * p.flops(), median(times));
    state.counters["forward_share"] = median(shares);
    if (!learns(training)) state.SkipWithError("a gradient is zero or not finite");
  });
}

template <class Setup>
void threads(benchmark::State& state, const Problem& p, const Setup& setup, double gate) {
  Training training(p, gate);
  Eigen::ThreadPool pool(2);
  const Eigen::ThreadPoolDevice device(&pool, 2);
  setup(p, [&](const auto&... policies) {
    training.step(device, policies...);
    std::vector<double> ratios;
    Calibration calibration;
    for (auto _ : state) {
      const double start = wall_seconds();
      training.step(heed::Serial{}, policies...);
      const double between = wall_seconds();
      training.step(device, policies...);
      const double two = wall_seconds() - between;
      state.SetIterationTime(two);
      ratios.push_back((between - start) / two);
    }
    calibration.describe(state);
    state.counters["speed_up"] = median(ratios);
    state.counters["speed_up_low"] = quantile(ratios, 0.25);
    state.counters["speed_up_high"] = quantile(ratios, 0.75);
  });
}

template <class Setup>
void memory(benchmark::State& state, const Problem& p, const Setup& setup, double gate) {
  Training training(p, gate);
  setup(p, [&](const auto&... policies) {
    std::size_t peak = 0;
    Calibration calibration;
    for (auto _ : state) {
      peak = Memory::peak_of([&] { training.step(heed::Serial{}, policies...); });
    }
    calibration.describe(state);
    state.counters["kib"] = double(peak) / 1024;
    state.counters["kib_per_token"] = double(peak) / 1024 / double(p.len);
  });
}

template <class Setup>
void add(const std::string& policy, const Setup& setup, double gate = 0.5) {
  const auto name = [&](const char* what, const Problem& p) {
    return std::string(what) + "/policy:" + policy + "/" + p.name();
  };
  const bool basic = policy == "plain" || policy == "cope";
  for (const Index dim : {64, 128}) {
    for (const Index len : {512, 1024, 2048, 4096}) {
      if (!basic && len != 1024 && len != 4096) continue;
      const Problem p{8, 8, len, dim};
      benchmark::RegisterBenchmark(name("backward", p).c_str(),
                                   [=](benchmark::State& s) { backward(s, p, setup, gate); })
          ->Unit(benchmark::kMillisecond)
          ->UseManualTime()
          ->Iterations(pairs_for(8 * p.flops()));
      if (!basic) continue;
      benchmark::RegisterBenchmark(name("threads", p).c_str(),
                                   [=](benchmark::State& s) { threads(s, p, setup, gate); })
          ->Unit(benchmark::kMillisecond)
          ->UseManualTime()
          ->Iterations(pairs_for(8 * p.flops()));
    }
  }
  if (!basic) return;
  for (const Index len : {512, 1024, 2048, 4096, 8192}) {
    const Problem p{8, 8, len, 64};
    benchmark::RegisterBenchmark(name("memory", p).c_str(),
                                 [=](benchmark::State& s) { memory(s, p, setup, gate); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  }
}

int add_all() {
  describe_build();
  add("plain", [](const Problem&, const auto& use) { use(causal); });
  const auto cope = [](const Problem& p, const auto& use) {
    const Matrix table = position_table(kPositions, p.dim);
    use(causal, heed::Cope{table});
  };
  add("cope", cope);
  for (const double gate : {0.01, 0.03, 0.05}) add("cope:" + short_text(gate), cope, gate);
  add("head_scale", [](const Problem& p, const auto& use) {
    const std::vector<float> scales(std::size_t(p.heads), 1.2f);
    use(causal, heed::HeadScale{scales});
  });
  add("alibi", [](const Problem&, const auto& use) { use(causal, heed::Alibi{}); });
  add("rope", [](const Problem&, const auto& use) {
    use(causal, heed::Rope{.pairing = heed::Pairing::halves});
  });
  add("relative", [](const Problem& p, const auto& use) {
    const Matrix table = position_table(kPositions, p.dim);
    use(causal, heed::Relative{.table = table});
  });
  add("t5_bias", [](const Problem& p, const auto& use) {
    const Matrix table = position_table(p.heads, 32);
    use(causal, heed::T5Bias{.table = table});
  });
  return 0;
}
[[maybe_unused]] const int added = add_all();

}  // namespace
}  // namespace heed_bench

// SPDX-License-Identifier: Apache-2.0
//
// What each policy costs over plain causal attention on the same tensors: the two take turns in
// one process, in the order A B B A, and `over_plain` is the median of the pairs' ratios. Masks
// that leave tiles out also say `per_tile`: that ratio, times the tiles plain attention visits
// over the tiles that are left. One line per policy; a new policy adds its own to add_all.

#include "shapes.hpp"
#include "memory.hpp"

namespace heed_bench {
namespace {

using heed::causal;

// A score that changes nothing and counts the tiles it is shown.
struct CountTiles {
  Index* tiles;
  void forward(const heed::Tile&) const { ++*tiles; }
};

class Compare {
 public:
  Compare(benchmark::State& state, const Problem& p, double gate)
      : state_(state), problem_(p), tensors_(p, gate) {}

  template <class... Ps>
  void operator()(const Ps&... policies) {
    const auto plain = [this] { attend(causal); };
    const auto with = [&] { attend(policies...); };
    plain();
    state_.counters["scratch_kib"] = double(Memory::peak_of(with)) / 1024;
    std::vector<double> times, ratios;
    Calibration calibration;
    bool swap = false;
    for (auto _ : state_) {
      double a = 0, b = 0;
      if (swap) b = time(with);
      a = time(plain);
      if (!swap) b = time(with);
      swap = !swap;
      times.push_back(b);
      ratios.push_back(b / a);
      state_.SetIterationTime(b);
    }
    calibration.describe(state_);
    state_.counters["over_plain"] = median(ratios);
    state_.counters["over_plain_low"] = quantile(ratios, 0.25);
    state_.counters["over_plain_high"] = quantile(ratios, 0.75);
    state_.counters["fma_share"] = calibration.share(problem_.flops(), median(times));
  }

  // For masks: what is left of the work counts.
  template <class... Ps>
  void per_tile(const Ps&... policies) {
    (*this)(policies...);
    state_.counters.erase("fma_share");   // of work that is not done
    Index all = 0, left = 0;
    attend(causal, CountTiles{&all});
    attend(policies..., CountTiles{&left});
    const double ratio = state_.counters["over_plain"];
    state_.counters["per_tile"] = ratio * double(all) / double(left);
    state_.counters["tiles"] = double(left) / double(all);
  }

 private:
  template <class... Ps>
  void attend(const Ps&... policies) {
    heed::attend(heed::Into{.out = *tensors_.out}, *tensors_.q, *tensors_.k, *tensors_.v,
                 policies...);
  }
  template <class F>
  static double time(const F& f) {
    const double start = cpu_seconds();
    f();
    return cpu_seconds() - start;
  }

  benchmark::State& state_;
  const Problem problem_;
  Tensors tensors_;
};

// setup(compare, problem) makes the policies and calls compare(policies...).
template <class Setup>
void add(const std::string& policy, Setup setup, double gate = 0.5) {
  for (const Index dim : {64, 128}) {
    for (const Index len : {512, 1024, 4096}) {
      const Problem p{8, 8, len, dim};
      benchmark::RegisterBenchmark(("policy/policy:" + policy + "/" + p.name()).c_str(),
                                   [=](benchmark::State& state) {
                                     Compare compare(state, p, gate);
                                     setup(compare, p);
                                   })
          ->Unit(benchmark::kMillisecond)
          ->UseManualTime()
          ->Iterations(pairs_for(p.flops()));
    }
  }
}

void add_scales() {
  add("head_scale", [](Compare& compare, const Problem& p) {
    std::vector<float> scales(std::size_t(p.heads), 1.2f);
    compare(causal, heed::HeadScale{scales});
  });
  add("log_scale", [](Compare& compare, const Problem&) {
    compare(causal, heed::LogScale{.floor = 512});
  });
  add("soft_cap", [](Compare& compare, const Problem&) { compare(causal, heed::SoftCap{30}); });
  add("sink_logits", [](Compare& compare, const Problem& p) {
    std::vector<float> logits(std::size_t(p.heads), 0.5f);
    compare(causal, heed::SinkLogits{logits});
  });
  add("pointwise", [](Compare& compare, const Problem&) {
    compare(causal, heed::pointwise([](float x) { return x + 0.1f * x * x; },
                                    [](float x) { return 1 + 0.2f * x; }));
  });
}

void add_positions() {
  add("alibi", [](Compare& compare, const Problem&) { compare(causal, heed::Alibi{}); });
  for (const bool halves : {true, false}) {
    add(halves ? "rope_halves" : "rope_neighbours", [=](Compare& compare, const Problem&) {
      compare(causal, heed::Rope{.pairing = halves ? heed::Pairing::halves
                                                   : heed::Pairing::neighbours});
    });
  }
  for (const bool capped : {false, true}) {
    add(capped ? "relative_capped" : "relative", [=](Compare& compare, const Problem& p) {
      const Matrix table = position_table(kPositions, p.dim);
      compare(causal, heed::Relative{.table = table, .capped = capped});
    });
  }
  add("t5_bias", [](Compare& compare, const Problem& p) {
    const Matrix table = position_table(p.heads, 32);
    compare(causal, heed::T5Bias{.table = table});
  });
  add("bias", [](Compare& compare, const Problem& p) {
    Matrix bias(p.len, p.len);
    Normal(5).fill(bias.data(), bias.size());
    compare(causal, heed::Bias{bias});
  });
}

void add_masks() {
  add("window:256", [](Compare& compare, const Problem&) {
    compare.per_tile(causal & heed::Window{256});
  });
  add("window:256+sinks:4", [](Compare& compare, const Problem&) {
    compare.per_tile(causal & (heed::Window{256} | heed::Sinks{4}));
  });
  add("same_document", [](Compare& compare, const Problem& p) {
    std::vector<Index> ids(static_cast<std::size_t>(p.len));
    for (Index i = 0; i < p.len; ++i) ids[std::size_t(i)] = i / 300;
    compare.per_tile(causal, heed::SameDocument{.q = ids});
  });
  add("where", [](Compare& compare, const Problem&) {
    compare.per_tile(causal & heed::where([](Index i, Index j) { return (i - j) % 2 == 0; }));
  });
  // Nine pairs of ten, at random.
  add("dense_mask", [](Compare& compare, const Problem& p) {
    Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> keep(p.len, p.len);
    Normal normal(6);
    for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = normal() > -1.28f;
    compare(causal, heed::DenseMask{keep});
  });
}

void add_cope() {
  for (const double gate : {0.5, 0.27, 0.1, 0.05, 0.03, 0.01}) {
    add("cope/gate:" + short_text(gate),
        [](Compare& compare, const Problem& p) {
          const Matrix table = position_table(kPositions, p.dim);
          compare(causal, heed::Cope{table});
        },
        gate);
  }
  add("cope_form_b", [](Compare& compare, const Problem& p) {
    const Matrix table = position_table(kPositions, p.dim);
    compare(causal, heed::Cope{table, {.form = heed::CopeForm::b}});
  });
  for (const double gate : {0.5, 0.03}) {
    add("cope_gate_keys/gate:" + short_text(gate),
        [gate](Compare& compare, const Problem& p) {
          const Matrix table = position_table(kPositions, p.dim);
          Tensors other(p, gate);   // its keys
          Normal(7).fill(other.v->data(), other.v->size());
          for (Index i = 0; i < other.k->size(); ++i) {
            if (i % p.dim != 0) other.k->data()[i] = other.v->data()[i];
          }
          compare(causal, heed::Cope{table}.gate_keys(*other.k));
        },
        gate);
  }
  add("head_scale+cope", [](Compare& compare, const Problem& p) {
    const Matrix table = position_table(kPositions, p.dim);
    std::vector<float> scales(std::size_t(p.heads), 1.2f);
    compare(causal, heed::HeadScale{scales}, heed::Cope{table});
  });
}

int add_all() {
  describe_build();
  // Plain against itself: what the method calls 1.
  add("plain", [](Compare& compare, const Problem&) { compare(causal); });
  add_scales();
  add_positions();
  add_masks();
  add_cope();
  return 0;
}
[[maybe_unused]] const int added = add_all();

}  // namespace
}  // namespace heed_bench

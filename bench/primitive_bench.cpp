// SPDX-License-Identifier: Apache-2.0
//
// Each primitive on one tile, on every level that the machine has: the products as a share of the
// level's multiply-add rate, everything else in elements (logits, or numbers) per second. `align`
// is that of the rows of keys and values; Eigen aligns to 16 bytes in a plain build.

#include "shapes.hpp"

namespace heed_bench {
namespace {

using heed::kKeys;
using heed::kRows;
using heed::simd::ForwardTable;
using heed::simd::kReachAll;

constexpr Index kTile = kRows * kKeys;

// What primitives work on, all of it aligned.
struct Work {
  alignas(64) float packed[kRows * 128];
  alignas(64) float tile[kTile];
  alignas(64) float gates[kTile];
  alignas(64) float rows[kRows * 128 + 16];
  alignas(64) float out[kRows * 128];
  alignas(64) float columns[2 * kRows * kRows];   // of a band, or CoPE's z
  alignas(64) float a[kRows], b[kRows], c[kRows];
  alignas(64) std::int32_t start[kRows], offset[kKeys];
  const float* pointer[kRows];

  // Fresh inputs; rows of keys or values of width dim.
  void reset(Index dim, int align) {
    Normal normal(1);
    normal.fill(packed, kRows * 128, 0.125f);
    normal.fill(tile, kTile);
    normal.fill(gates, kTile);
    normal.fill(rows, kRows * 128 + 16);
    normal.fill(out, kRows * 128);
    normal.fill(columns, 2 * kRows * kRows, 0.1f);
    for (Index i = 0; i < kRows; ++i) {
      a[i] = 0.5f;
      b[i] = float(i);
      c[i] = 1;
      start[i] = std::int32_t(i);
      offset[i] = std::int32_t(i) - std::int32_t(kKeys) + 1;
      pointer[i] = rows + (align == 64 ? 0 : 4) + i * dim;
    }
  }
};

Work& work_on(Index dim = 64, int align = 64) {
  static Work work;
  work.reset(dim, align);
  return work;
}

void keep(Work&) {}

std::string level(Isa isa) { return "/isa:" + std::string(name_of(isa)); }

// f(table, work) is one call on a whole tile; prepare(work) comes before.
template <class F, class Prepare = void (*)(Work&)>
void add(const std::string& name, Isa isa, F f, Prepare prepare = keep) {
  benchmark::RegisterBenchmark(
      ("primitive/" + name + level(isa)).c_str(), [=](benchmark::State& state) {
        const auto& table = heed::simd::table_for<ForwardTable>(isa);
        Work& work = work_on();
        prepare(work);
        Calibration calibration(isa);
        time_loop(state, [&] { f(table, work); });
        calibration.describe(state);
        state.counters["gelements"] = benchmark::Counter(
            double(kTile) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
      });
}

// f(table, work, dim) multiplies two matrices, 64 x dim and dim x 64, or 64 x 64 and 64 x dim.
template <class F>
void add_product(const std::string& name, Isa isa, F f) {
  for (const Index dim : {64, 128}) {
    for (const int align : {64, 16}) {
      const std::string shape =
          "/dim:" + std::to_string(dim) + "/align:" + std::to_string(align);
      benchmark::RegisterBenchmark(
          ("primitive/" + name + shape + level(isa)).c_str(), [=](benchmark::State& state) {
            const auto& table = heed::simd::table_for<ForwardTable>(isa);
            Work& work = work_on(dim, align);
            Calibration calibration(isa);
            const double time = time_loop(state, [&] { f(table, work, dim); });
            calibration.describe(state);
            state.counters["fma_share"] = calibration.share(2.0 * double(kTile * dim), time);
          });
    }
  }
}

// CoPE's walk from the diagonal, by the size of the gates. Gates of 1 need a look-up for every key,
// gates of 0 one for the tile, and a settled row has nothing left to do.
void add_walk(Isa isa) {
  const auto add_one = [isa](const std::string& name, float logit, float deviation, float carry) {
    const auto walk = [carry](const ForwardTable& table, Work& w) {
      alignas(64) float sum[kRows], low[kRows] = {};
      std::fill_n(sum, kRows, carry);
      table.gate_walk(w.tile, w.gates, kKeys, {w.columns, float(kPositions - 1), true, sum, low},
                      kReachAll);
    };
    add(name, isa, walk, [=](Work& w) {
      for (float& x : w.gates) x = deviation * x + logit;
    });
  };
  for (const double gate : {0.5, 0.27, 0.1, 0.05, 0.03, 0.01}) {
    add_one("gate_walk/gate:" + short_text(gate), float(logit_of_gate(gate)), 1, 0);
  }
  add_one("gate_walk/gate:0", -50, 0, 0);
  add_one("gate_walk/settled", 0, 1, float(kPositions));
  add_one("look_up", 50, 0, 0);
}

void add_level(Isa isa) {
  add_product("product", isa, [](const ForwardTable& table, Work& w, Index dim) {
    table.product(w.tile, w.packed, dim, w.pointer, kKeys, kReachAll);
  });
  add_product("weighted_sum", isa, [](const ForwardTable& table, Work& w, Index dim) {
    table.weighted_sum(w.out, dim, w.tile, w.pointer, kKeys, w.a, kReachAll, 0, kRows);
  });
  for (const bool entropy : {false, true}) {
    add(entropy ? "absorb_with_entropy" : "absorb", isa,
        [=](const ForwardTable& table, Work& w) {
          alignas(64) static constexpr float kNoOffset[kRows] = {};
          table.absorb(w.tile, kKeys, {w.c, w.a, entropy ? w.b : nullptr, kNoOffset}, w.out,
                       kReachAll);
        });
  }

  add_walk(isa);

  // The inputs below stay finite however often the primitive runs in place.
  add("exp", isa, [](const ForwardTable& table, Work& w) { table.weigh(w.tile, kTile, 2, 1); });
  add("sigmoid", isa, [](const ForwardTable& table, Work& w) { table.sigmoid(w.tile, kTile); });
  add("tanh", isa, [](const ForwardTable& table, Work& w) { table.tanh(w.tile, kTile); });
  add("soft_cap", isa, [](const ForwardTable& table, Work& w) {
    table.soft_cap(w.tile, kKeys, 30, heed::simd::kReachAll);
  });
  add("pack/dim:64", isa, [](const ForwardTable& table, Work& w) {
    table.pack(w.packed, w.pointer, w.c, kRows, 64);
  });
  add("hide", isa, [](const ForwardTable& table, Work& w) {
    static const std::vector<heed::LaneBits> visible(kKeys, 0x5555555555555555u);
    table.hide(w.tile, visible.data(), kKeys);
  });
  add("scale", isa, [](const ForwardTable& table, Work& w) { table.scale(w.tile, kKeys, w.c); });
  add("shift", isa, [](const ForwardTable& table, Work& w) { table.shift(w.tile, kKeys, w.a); });
  add("slope", isa, [](const ForwardTable& table, Work& w) {
    table.slope(w.tile, kKeys, w.a, w.b, w.b, heed::simd::kReachAll);
  });
  add("band", isa, [](const ForwardTable& table, Work& w) {
    table.band(w.tile, kKeys, w.columns, kRows + kKeys - 1, w.start, w.offset,
               heed::simd::kReachAll);
  });
  for (const bool halves : {true, false}) {
    add(halves ? "rotate_halves/dim:64" : "rotate_neighbours/dim:64", isa,
        [=](const ForwardTable& table, Work& w) {
          static const std::vector<float> cosine(32, 0.8f), sine(32, 0.6f);
          for (Index i = 0; i < kRows; ++i) {
            table.rotate(w.tile + i * 64, 64, cosine.data(), sine.data(), halves, false);
          }
        });
  }
}

int add_all() {
  describe_build();
  const Isa best = heed::simd::best_isa(heed::simd::this_cpu());
  for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::generic}) {
    if (isa <= best) add_level(isa);
  }
  return 0;
}
[[maybe_unused]] const int added = add_all();

}  // namespace
}  // namespace heed_bench

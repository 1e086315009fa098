// SPDX-License-Identifier: Apache-2.0
//
// Every policy of the library beside its meaning in the oracle. A described policy has
//   prepare(world, random)   makes its parameters
//   policy(slice)            the library's policy, for a part of the call
//   describe(case)           the same in the oracle's words
// and Described<...> puts several together, in order. What a policy refers to lives in the
// described policy, so that must outlive the call.

#pragma once

#include <heed/policy/alibi.hpp>
#include <heed/policy/cope.hpp>
#include <heed/policy/dense.hpp>
#include <heed/policy/documents.hpp>
#include <heed/policy/masks.hpp>
#include <heed/policy/placement.hpp>
#include <heed/policy/pointwise.hpp>
#include <heed/policy/relative.hpp>
#include <heed/policy/rope.hpp>
#include <heed/policy/scale.hpp>
#include <heed/policy/sink_logits.hpp>
#include <heed/policy/soft_cap.hpp>
#include <heed/policy/t5.hpp>
#include <memory>
#include <tuple>

#include "world.hpp"

namespace support {

struct Part {
  void prepare(const World&, Random&) {}
  void describe(oracle::Case&) const {}
};

// ------------------------------------------------------------------------------------------ masks

struct Causal : Part {
  static constexpr const char* kName = "Causal";
  auto policy(const Slice&) const { return heed::causal; }
  void describe(oracle::Case& c) const {
    c.masks.push_back([](const auto& q, const auto& k) { return k.position <= q.position; });
  }
};

// causal & (Window | Sinks)
struct WindowSinks : Part {
  static constexpr const char* kName = "WindowSinks";
  Index window = 0, sinks = 0;
  void prepare(const World& w, Random& r) {
    window = r.integer(1, std::max<Index>(1, w.shape.kv_len));
    sinks = r.integer(0, 5);
  }
  auto policy(const Slice&) const {
    return heed::causal & (heed::Window{window} | heed::Sinks{sinks});
  }
  void describe(oracle::Case& c) const {
    c.masks.push_back([w = window, s = sinks](const auto& q, const auto& k) {
      return k.position <= q.position && (q.position - k.position < w || k.position < s);
    });
  }
};

struct NarrowWindow : Part {
  static constexpr const char* kName = "NarrowWindow";
  auto policy(const Slice&) const { return heed::causal & heed::Window{10}; }
  void describe(oracle::Case& c) const {
    c.masks.push_back([](const auto& q, const auto& k) {
      return k.position <= q.position && q.position - k.position < 10;
    });
  }
};

// Not causal: a window alone, and the reverse of a predicate.
struct NotWhere : Part {
  static constexpr const char* kName = "NotWhere";
  static bool hit(Index q, Index k) { return (q * 7 + k * 3) % 4 == 0; }
  auto policy(const Slice&) const {
    return !heed::where([](Index q, Index k) { return hit(q, k); });
  }
  void describe(oracle::Case& c) const {
    c.masks.push_back([](const auto& q, const auto& k) { return !hit(q.position, k.position); });
  }
};

// Causal within documents, by index.
struct Documents : Part {
  static constexpr const char* kName = "Documents";
  Extents shape;
  std::vector<Index> q, k;                   // batch * len
  mutable std::vector<Index> q_part, k_part;
  void prepare(const World& w, Random& r) {
    shape = w.shape;
    q.clear();
    k.clear();
    for (Index b = 0; b < shape.batch; ++b) {
      Index id = 0;
      std::vector<Index> ids;
      for (Index t = 0; t < shape.kv_len; ++t) ids.push_back(id += r.chance(0.1));
      k.insert(k.end(), ids.begin(), ids.end());
      for (Index i = 0; i < shape.q_len; ++i) {
        const Index t = shape.kv_len - shape.q_len + i;
        q.push_back(t >= 0 ? ids[size(t)] : -1);
      }
    }
  }
  auto policy(const Slice& s) const {
    q_part.clear();
    k_part.clear();
    for (Index b = s.batch_first; b < s.batch_first + s.batch; ++b) {
      const auto rows = q.begin() + b * shape.q_len + s.row_first;
      const auto keys = k.begin() + b * shape.kv_len;
      q_part.insert(q_part.end(), rows, rows + s.rows);
      k_part.insert(k_part.end(), keys, keys + s.keys);
    }
    return heed::causal & heed::SameDocument{.q = q_part, .k = k_part, .batch = s.batch};
  }
  void describe(oracle::Case& c) const {
    c.masks.push_back([this](const auto& a, const auto& b) {
      return b.position <= a.position && q[size(a.batch * shape.q_len + a.row)] ==
                                             k[size(a.batch * shape.kv_len + b.index)];
    });
  }
};

// Random pairs, some rows empty; with causal, or alone.
template <bool causal>
struct Dense : Part {
  static constexpr const char* kName = causal ? "CausalDense" : "Dense";
  Extents shape;
  bool per_batch = true, per_head = true;
  std::shared_ptr<bool[]> keep;
  Index batches() const { return per_batch ? shape.batch : 1; }
  Index heads() const { return per_head ? shape.heads : 1; }
  void prepare(const World& w, Random& r) {
    shape = w.shape;
    per_batch = r.chance(0.5);
    per_head = r.chance(0.5);
    keep.reset(new bool[size(batches() * heads() * shape.q_len * shape.kv_len + 1)]);
    for (Index row = 0; row < batches() * heads() * shape.q_len; ++row) {
      const double share = r.pick({0.0, 0.05, 0.5, 0.9, 1.0});
      for (Index j = 0; j < shape.kv_len; ++j) {
        keep[row * shape.kv_len + j] = r.chance(share);
      }
    }
  }
  auto policy(const Slice& s) const {
    const Index t = shape.kv_len, h = shape.q_len * t, b = heads() * h;
    const heed::DenseMask dense{heed::View<const bool>(
        keep.get() + (per_batch ? s.batch_first * b : 0) + s.row_first * t,
        {per_batch ? s.batch : 1, heads(), s.rows, s.keys}, {b, h, t})};
    if constexpr (causal) {
      return heed::causal & dense;
    } else {
      return dense;
    }
  }
  void describe(oracle::Case& c) const {
    c.masks.push_back([this](const auto& q, const auto& k) {
      const Index row = ((per_batch ? q.batch : 0) * heads() + (per_head ? q.head : 0)) *
                            shape.q_len + q.row;
      return keep[row * shape.kv_len + k.index] && (!causal || k.position <= q.position);
    });
  }
};

// -------------------------------------------------------------------------------------- placements

struct TopLeft : Part {
  static constexpr const char* kName = "TopLeft";
  Extents shape;
  void prepare(const World& w, Random&) { shape = w.shape; }
  auto policy(const Slice&) const { return heed::top_left; }
  void describe(oracle::Case& c) const {
    c.q_position.assign(size(shape.batch), {});
    for (auto& p : c.q_position) {
      for (Index i = 0; i < shape.q_len; ++i) p.push_back(i);
    }
    c.k_position.clear();
  }
};

// Positions with gaps, different for each batch entry.
struct Placed : Part {
  static constexpr const char* kName = "Placed";
  Extents shape;
  std::vector<std::vector<Index>> q, k;
  mutable std::vector<Index> q_part, k_part;
  static std::vector<Index> ascending(Random& r, Index start, Index n) {
    std::vector<Index> p;
    for (Index i = 0; i < n; ++i) p.push_back(start += r.pick<Index>({1, 1, 1, 1, 2, 3, 9}));
    return p;
  }
  void prepare(const World& w, Random& r) {
    shape = w.shape;
    q.clear();
    k.clear();
    for (Index b = 0; b < shape.batch; ++b) {
      k.push_back(ascending(r, r.integer(-1, 3), shape.kv_len));
      const Index end = shape.kv_len > 0 ? k.back().back() : 0;
      q.push_back(ascending(r, std::max<Index>(-1, end - 2 * shape.q_len), shape.q_len));
    }
  }
  auto policy(const Slice& s) const {
    q_part.clear();
    k_part.clear();
    for (Index b = s.batch_first; b < s.batch_first + s.batch; ++b) {
      const auto rows = q[size(b)].begin() + s.row_first;
      q_part.insert(q_part.end(), rows, rows + s.rows);
      k_part.insert(k_part.end(), k[size(b)].begin(), k[size(b)].begin() + s.keys);
    }
    return heed::Positions{.q = q_part, .k = k_part};
  }
  void describe(oracle::Case& c) const {
    c.q_position = q;
    c.k_position = k;
  }
};

// Right-padded batch entries.
struct Padded : Part {
  static constexpr const char* kName = "Lengths";
  Extents shape;
  std::vector<Index> q, k;
  mutable std::vector<Index> q_part, k_part;
  void prepare(const World& w, Random& r) {
    shape = w.shape;
    q.clear();
    k.clear();
    for (Index b = 0; b < shape.batch; ++b) {
      q.push_back(r.integer(0, shape.q_len));
      k.push_back(r.integer(0, shape.kv_len));
    }
    // One entry is full, so that the test can fail.
    if (shape.batch > 0) {
      q[0] = shape.q_len;
      k[0] = shape.kv_len;
    }
  }
  // Of a part, the first rows: an entry that loses rows loses as many keys, so that the rest stand
  // where they stood.
  auto policy(const Slice& s) const {
    q_part.assign(q.begin() + s.batch_first, q.begin() + s.batch_first + s.batch);
    k_part.assign(k.begin() + s.batch_first, k.begin() + s.batch_first + s.batch);
    for (std::size_t b = 0; b < q_part.size(); ++b) {
      const Index lost = std::max<Index>(q_part[b] - s.rows, 0);
      q_part[b] -= lost;
      k_part[b] = std::max<Index>(k_part[b] - lost, 0);
    }
    return heed::Lengths{.q = q_part, .kv = k_part};
  }
  void describe(oracle::Case& c) const {
    c.q_len = q;
    c.kv_len = k;
  }
};

// --------------------------------------------------------------------------------------- encodings

template <bool halves>
struct Roped : Part {
  static constexpr const char* kName = halves ? "RopeHalves" : "RopeNeighbours";
  float theta = 0, scaling = 1;
  Index width = 0;
  void prepare(const World& w, Random& r) {
    theta = r.pick({100.f, 1e4f, 1e5f});
    scaling = r.pick({1.f, 1.f, 4.f});
    width = r.chance(0.5) ? 0 : 2 * r.integer(0, w.shape.dim / 2);
    if (width == 0 && w.shape.dim % 2 == 1) width = w.shape.dim - 1;
  }
  // Nothing to rotate where dim is 1; 0 means all of it.
  auto policy(const Slice&) const {
    return heed::Rope{.theta = theta,
                      .pairing = halves ? heed::Pairing::halves : heed::Pairing::neighbours,
                      .width = width, .scaling = scaling};
  }
  void describe(oracle::Case& c) const {
    c.encodings.push_back({.theta = static_cast<double>(theta), .halves = halves, .width = width,
                           .scaling = static_cast<double>(scaling)});
  }
};

// ------------------------------------------------------------------------------------------ scores

inline std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

inline std::vector<float> normals(Random& r, Index n, double by) {
  std::vector<float> x(size(n));
  for (float& a : x) a = static_cast<float>(by * r.normal());
  return x;
}

struct Scaled : Part {
  static constexpr const char* kName = "Scale";
  float scale = 0;
  void prepare(const World&, Random& r) { scale = static_cast<float>(r.uniform(0.05, 1.5)); }
  auto policy(const Slice&) const { return heed::Scale{scale}; }
  void describe(oracle::Case& c) const { c.scale = static_cast<double>(scale); }
};

struct HeadScaled : Part {
  static constexpr const char* kName = "HeadScale";
  std::vector<float> scales;
  void prepare(const World& w, Random& r) {
    scales.clear();
    for (Index h = 0; h < w.shape.heads; ++h) {
      scales.push_back(static_cast<float>(r.uniform(0.5, 3)));
    }
  }
  auto policy(const Slice&) const { return heed::HeadScale{scales}; }
  void describe(oracle::Case& c) const {
    c.scores.push_back(oracle::Factor{[s = doubles(scales)](const auto& q) {
      return s[size(q.head)];
    }});
  }
};

// A small floor, so that short tests see it.
struct LogScaled : Part {
  static constexpr const char* kName = "LogScale";
  auto policy(const Slice&) const {
    return heed::LogScale{.alpha = 0.25f, .floor = 16, .offset = 1};
  }
  void describe(oracle::Case& c) const {
    c.scores.push_back(oracle::Factor{[](const auto& q) {
      const Index steps = std::max<Index>(q.position + 1, 0) / 16;
      return 1 + 0.25 * std::log(static_cast<double>(steps + 1));
    }});
  }
};

struct AlibiSloped : Part {
  static constexpr const char* kName = "Alibi";
  Index heads = 0;
  void prepare(const World& w, Random&) { heads = w.shape.heads; }
  auto policy(const Slice&) const { return heed::Alibi{}; }
  void describe(oracle::Case& c) const {
    c.scores.push_back(oracle::Alibi{oracle::alibi_slopes(heads)});
  }
};

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct TableOf {
  Index tables = 1, rows = 0, dim = 0;
  std::vector<float> data;
  void make(Random& r, Index table_count, Index row_count, Index width, double by) {
    tables = table_count;
    rows = row_count;
    dim = width;
    data = normals(r, tables * rows * dim, by);
  }
  heed::TableView view() const { return {data.data(), tables, rows, dim}; }
  oracle::Table described() const { return {tables, rows, dim, doubles(data)}; }
};

template <bool capped>
struct Relatived : Part {
  static constexpr const char* kName = capped ? "RelativeCapped" : "Relative";
  TableOf table;
  void prepare(const World& w, Random& r) {
    table.make(r, r.chance(0.5) ? 1 : w.shape.heads, r.pick<Index>({1, 2, 9, 40, 100}),
               w.shape.dim, 0.5);
  }
  auto policy(const Slice&) const {
    return heed::Relative{.table = table.view(), .capped = capped};
  }
  void describe(oracle::Case& c) const {
    c.scores.push_back(oracle::Relative{table.described(), capped});
  }
};

struct T5Biased : Part {
  static constexpr const char* kName = "T5Bias";
  RowMajor table;
  void prepare(const World& w, Random& r) {
    table.resize(w.shape.heads, 8);
    for (Index i = 0; i < table.size(); ++i) table.data()[i] = static_cast<float>(r.normal());
  }
  auto policy(const Slice&) const {
    return heed::T5Bias{.table = table, .max_distance = 20, .scale = 1.5f};
  }
  void describe(oracle::Case& c) const {
    std::vector<std::vector<double>> rows;
    for (Index h = 0; h < table.rows(); ++h) {
      rows.emplace_back();
      for (Index n = 0; n < table.cols(); ++n) {
        rows.back().push_back(static_cast<double>(table(h, n)));
      }
    }
    c.scores.push_back(oracle::T5Bias{rows, 20, 1.5});
  }
};

struct Biased : Part {
  static constexpr const char* kName = "Bias";
  Extents shape;
  bool per_batch = true, per_head = true;
  std::vector<float> bias;
  Index heads() const { return per_head ? shape.heads : 1; }
  void prepare(const World& w, Random& r) {
    shape = w.shape;
    per_batch = r.chance(0.5);
    per_head = r.chance(0.5);
    bias = normals(r, (per_batch ? shape.batch : 1) * heads() * shape.q_len * shape.kv_len, 1);
  }
  auto policy(const Slice& s) const {
    const Index t = shape.kv_len, h = shape.q_len * t, b = heads() * h;
    return heed::Bias{heed::View<const float>(
        bias.data() + (per_batch ? s.batch_first * b : 0) + s.row_first * t,
        {per_batch ? s.batch : 1, heads(), s.rows, s.keys}, {b, h, t})};
  }
  void describe(oracle::Case& c) const {
    c.scores.push_back(oracle::Bias{[this](const auto& q, const auto& k) {
      const Index row = ((per_batch ? q.batch : 0) * heads() + (per_head ? q.head : 0)) *
                            shape.q_len + q.row;
      return static_cast<double>(bias[size(row * shape.kv_len + k.index)]);
    }});
  }
};

struct Capped : Part {
  static constexpr const char* kName = "SoftCap";
  auto policy(const Slice&) const { return heed::SoftCap{2.5f}; }
  void describe(oracle::Case& c) const { c.scores.push_back(oracle::SoftCap{2.5}); }
};

// A user's formula of the logit alone.
struct Bent : Part {
  static constexpr const char* kName = "Pointwise";
  static constexpr double bend(double x) { return x / (1 + 0.25 * (x < 0 ? -x : x)); }
  auto policy(const Slice&) const {
    return heed::pointwise([](float x) { return x / (1 + 0.25f * (x < 0 ? -x : x)); },
                           [](float x) {
                             const float r = 1 + 0.25f * (x < 0 ? -x : x);
                             return 1 / (r * r);
                           });
  }
  void describe(oracle::Case& c) const {
    // Infinity over infinity is not a number, and hidden again afterwards.
    c.scores.push_back(
        oracle::Pointwise{[](double x, const auto&, const auto&) { return bend(x); }});
  }
};

// And of the pair: keys at odd distances lose a little.
struct Uneven : Part {
  static constexpr const char* kName = "PointwiseOfPair";
  auto policy(const Slice&) const {
    return heed::pointwise(
        [](float x, heed::Query q, heed::Key k) {
          return (q.position - k.position) % 2 == 0 ? x : x - 0.5f;
        },
        [](float, heed::Query, heed::Key) { return 1.f; });
  }
  void describe(oracle::Case& c) const {
    c.scores.push_back(oracle::Pointwise{[](double x, const auto& q, const auto& k) {
      return (q.position - k.position) % 2 == 0 ? x : x - 0.5;
    }});
  }
};

// A convex table: with a linear one, softmax would hide a position that is off by a constant.
template <bool form_b, bool own_token, oracle::Cope::Gates gates = oracle::Cope::Gates::logits>
struct Coped : Part {
  static constexpr const char* kName =
      gates == oracle::Cope::Gates::keys     ? "CopeGateKeys"
      : gates == oracle::Cope::Gates::values ? "CopeValueGates"
      : form_b                               ? (own_token ? "CopeB" : "CopeBNext")
                                             : (own_token ? "Cope" : "CopeNext");
  const World* world = nullptr;
  TableOf table;
  std::vector<float> gate_keys;
  void prepare(const World& w, Random& r) {
    world = &w;
    table.make(r, r.chance(0.5) ? 1 : w.shape.heads, r.pick<Index>({1, 2, 3, 9, 20, 64}),
               w.shape.dim, 0.3);
    for (std::size_t i = 0; i < table.data.size(); ++i) {
      const double n = static_cast<double>((static_cast<Index>(i) / w.shape.dim) % table.rows);
      table.data[i] += static_cast<float>(0.001 * n * n);
    }
    if constexpr (gates == oracle::Cope::Gates::keys) {
      gate_keys = normals(r, w.shape.batch * w.shape.kv_heads * w.shape.kv_len * w.shape.dim, 1);
    }
  }
  auto policy(const Slice& s) const {
    const auto plain = heed::Cope{table.view(), {.form = form_b ? heed::CopeForm::b
                                                                : heed::CopeForm::a,
                                                 .own_token = own_token}};
    if constexpr (gates == oracle::Cope::Gates::keys) {
      return plain.gate_keys(world->keys_of(gate_keys, world->shape.dim, s));
    } else if constexpr (gates == oracle::Cope::Gates::values) {
      return plain.value_gates();
    } else {
      (void)s;
      return plain;
    }
  }
  void describe(oracle::Case& c) const {
    oracle::Cope cope{.table = table.described(), .form_b = form_b, .own_token = own_token,
                      .gates = gates, .gate_keys = {}, .heads = world->shape.heads};
    if constexpr (gates == oracle::Cope::Gates::keys) {
      cope.gate_keys = world->kv_array(gate_keys, world->shape.dim);
    }
    c.scores.push_back(cope);
  }
};

struct Sunk : Part {
  static constexpr const char* kName = "SinkLogits";
  std::vector<float> logits;
  void prepare(const World& w, Random& r) { logits = normals(r, w.shape.heads, 2); }
  auto policy(const Slice&) const { return heed::SinkLogits{logits}; }
  void describe(oracle::Case& c) const { c.sinks = doubles(logits); }
};

// ------------------------------------------------------------------------------- several, in order

template <class... Parts>
class Described {
 public:
  static std::string name() {
    std::string text;
    ((text += Parts::kName), ...);
    return text;
  }
  template <class P>
  static constexpr bool has() {
    return (std::is_same_v<P, Parts> || ...);
  }
  // Only one of q's extents and positions is given in parts: see laws.hpp.
  static constexpr bool kPlaced = has<TopLeft>() || has<Placed>() || has<Padded>();
  static constexpr bool kCausal = has<Causal>() || has<WindowSinks>() || has<NarrowWindow>() ||
                                  has<Documents>() || has<Dense<true>>();

  Described(const World& world, std::uint64_t seed) {
    Random random(seed);
    std::apply([&](auto&... parts) { (parts.prepare(world, random), ...); }, parts_);
  }
  Described(const Described&) = delete;   // policies refer to it
  auto policy(const Slice& s) const {
    return packed(s, std::index_sequence_for<Parts...>{});
  }
  oracle::Case describe(const World& world) const {
    oracle::Case c = world.oracle_case();
    std::apply([&](const auto&... parts) { (parts.describe(c), ...); }, parts_);
    return c;
  }

 private:
  template <std::size_t... i>
  auto packed(const Slice& s, std::index_sequence<i...>) const {
    return heed::pack(std::get<i>(parts_).policy(s)...);
  }

  std::tuple<Parts...> parts_;
};

}  // namespace support

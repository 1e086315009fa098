// SPDX-License-Identifier: Apache-2.0
//
// Policies that are put together at run time, so that pairs and triples of them need no
// instantiation of their own: std::function behind each hook. Slow, and only for tests.

#pragma once

#include <functional>
#include <memory>

#include "policies.hpp"

namespace support {

// Any masks, all of which must agree.
template <bool is_causal>
struct AnyMask {
  static constexpr bool causal = is_causal;
  struct Hooks {
    std::function<heed::Visibility(const heed::Rows&, const heed::Keys&)> visibility;
    std::function<bool(heed::Query, heed::Key)> visible;
    std::function<heed::LaneBits(const heed::Rows&, heed::Key)> lanes;
    std::function<void(const heed::Shape&)> check;
  };
  std::vector<Hooks> masks;

  template <class M>
  void add(const M& mask) {
    masks.push_back(
        {[mask](const auto& rows, const auto& keys) { return mask.visibility(rows, keys); },
         [mask](heed::Query q, heed::Key k) { return mask.visible(q, k); },
         [mask](const auto& rows, heed::Key k) { return heed::lanes_of(mask, rows, k); },
         [mask](const auto& shape) {
           (void)mask;
           if constexpr (requires { mask.check(shape); }) mask.check(shape);
         }});
  }
  void check(const heed::Shape& shape) const {
    for (const Hooks& m : masks) m.check(shape);
  }
  heed::Visibility visibility(const heed::Rows& rows, const heed::Keys& keys) const {
    auto result = heed::Visibility::all;
    for (const Hooks& m : masks) result = std::min(result, m.visibility(rows, keys));
    return result;
  }
  bool visible(heed::Query q, heed::Key k) const {
    return std::all_of(masks.begin(), masks.end(), [&](const Hooks& m) { return m.visible(q, k); });
  }
  heed::LaneBits lanes(const heed::Rows& rows, heed::Key k) const {
    heed::LaneBits bits = rows.lanes();
    for (const Hooks& m : masks) bits &= m.lanes(rows, k);
    return bits;
  }
};

// Any placement; the default one until told otherwise.
struct AnyPlacement {
  std::function<Index(const heed::Shape&, Index, Index)> query, key;
  std::function<heed::Extents(const heed::Shape&, Index)> valid;
  std::function<void(const heed::Shape&)> checks;

  AnyPlacement() { set(heed::BottomRight{}); }
  template <class P>
  void set(const P& p) {
    query = [p](const auto& s, Index b, Index i) { return p.query_position(s, b, i); };
    key = [p](const auto& s, Index b, Index j) { return p.key_position(s, b, j); };
    valid = [p](const auto& s, Index b) { return p.extents(s, b); };
    checks = [p](const auto& s) {
      (void)p;
      if constexpr (requires { p.check(s); }) p.check(s);
    };
  }
  void check(const heed::Shape& s) const { checks(s); }
  Index query_position(const heed::Shape& s, Index b, Index i) const { return query(s, b, i); }
  Index key_position(const heed::Shape& s, Index b, Index j) const { return key(s, b, j); }
  heed::Extents extents(const heed::Shape& s, Index b) const { return valid(s, b); }
};

// Any encodings, in order; none at first.
struct AnyEncoding {
  using Change = std::function<void(heed::Vector, Index)>;
  struct Table {
    std::vector<Change> encode, adjoint;
  };
  std::vector<std::function<void(Table&, heed::List<Index>, Index)>> encodings;

  template <class E>
  void add(const E& encoding) {
    encodings.push_back([encoding](Table& table, heed::List<Index> positions, Index dim) {
      using Inner = decltype(encoding.begin(positions, dim));
      const auto inner = std::make_shared<Inner>(encoding.begin(positions, dim));
      table.encode.push_back([=](heed::Vector x, Index i) { encoding.encode(x, i, *inner); });
      table.adjoint.push_back(
          [=](heed::Vector x, Index i) { encoding.encode_adjoint(x, i, *inner); });
    });
  }
  Table begin(heed::List<Index> positions, Index dim) const {
    Table table;
    for (const auto& e : encodings) e(table, positions, dim);
    return table;
  }
  void encode(heed::Vector x, Index i, const Table& table) const {
    for (const Change& change : table.encode) change(x, i);
  }
  void encode_adjoint(heed::Vector x, Index i, const Table& table) const {
    for (auto c = table.adjoint.rbegin(); c != table.adjoint.rend(); ++c) (*c)(x, i);
  }
};

// Any factors; 1 at first.
struct AnyFactor {
  std::vector<std::function<float(heed::Query)>> factors;

  template <class F>
  void add(const F& f) {
    factors.push_back([f](heed::Query q) { return f.factor(q); });
  }
  float factor(heed::Query q) const {
    float product = 1;
    for (const auto& f : factors) product *= f(q);
    return product;
  }
};

// Any scores that do not walk, in order; none at first. Logits are hidden again between them.
struct AnyScore {
  using Step = std::function<void(const heed::Tile&)>;
  struct State {
    std::vector<Step> steps;
  };
  std::vector<std::function<Step(const heed::Rows&)>> scores;

  template <class S>
  void add(const S& score) {
    if constexpr (heed::StatefulScore<S>) {
      scores.push_back([score](const heed::Rows& rows) -> Step {
        using Inner = decltype(score.begin(rows));
        const auto inner = std::make_shared<Inner>(score.begin(rows));
        return [score, inner](const heed::Tile& tile) { score.forward(tile, *inner); };
      });
    } else if constexpr (heed::StatelessScore<S>) {
      scores.push_back([score](const heed::Rows&) -> Step {
        return [score](const heed::Tile& tile) { score.forward(tile); };
      });
    } else {
      scores.push_back([score](const heed::Rows&) -> Step {
        return [score](const heed::Tile& tile) {
          for (Index j = 0; j < tile.keys.count; ++j) {
            auto column = tile.logits.column(j);
            for (Index lane = 0; lane < tile.rows.count; ++lane) {
              column[lane] *= score.factor(tile.rows.query(lane));
            }
          }
        };
      });
    }
  }
  State begin(const heed::Rows& rows) const {
    State state;
    for (const auto& s : scores) state.steps.push_back(s(rows));
    return state;
  }
  void forward(const heed::Tile& tile, State& state) const {
    for (const Step& step : state.steps) step(tile);
  }
};

// Everything at once, except CoPE and sinks: those are types of the pack.
struct Erased {
  AnyMask<true> causal;
  AnyMask<false> mask;
  AnyPlacement placement;
  AnyEncoding encoding;
  AnyFactor factor;
  AnyScore before, after;
};

}  // namespace support

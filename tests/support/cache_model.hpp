// SPDX-License-Identifier: Apache-2.0
//
// The specification of a cache: a list of tokens per bank, everything in double, one thing after
// the other. A bank is a set of kv heads that share its list.
//
//   step      append the token; attend over the list; add up the weights; if the list is longer
//             than the budget, drop the token worth least: lower first, then older
//   one_shot  the whole prompt attends over the list and over itself up to each row; then the last
//             row's weights (TOVA) or the sums over all rows (H2O) decide what is dropped
//
// Logits are scale q.k - slope_h (query position - key position), so that a wrong position shows.

#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "oracle.hpp"
#include "shapes.hpp"

namespace support {

enum class Kind { unbounded, oldest, tova, heavy };

struct ModelOptions {
  Index heads = 1, kv_heads = 1, dim = 1;
  Index budget = 1, sinks = 0, recent = 0;   // recent: newest tokens that never go
  bool per_head = false;
  Kind kind = Kind::oldest;
};

// Vectors of one token: [heads][dim], [kv_heads][dim], [kv_heads][dim].
struct ModelToken {
  Index position = 0;
  std::vector<double> k, v;
  double score = 0;        // sum of weights
  double last = 0;         // weight from the last query
};

class ModelEntry {
 public:
  std::vector<std::vector<ModelToken>> banks;
  Index seen = 0, next = 0, evicted_until = 0;

  explicit ModelEntry(const ModelOptions& o)
      : banks(static_cast<std::size_t>(o.per_head ? o.kv_heads : 1)), options_(o) {}

  // Chooses what goes instead of the model where two scores are this close: shown both, says yes.
  using Adopt = std::function<Index(Index bank, Index mine)>;

  // One token; returns its output [heads][dim].
  std::vector<double> step(Index position, const std::vector<double>& q, const ModelToken& token,
                           const Adopt& adopt) {
    append(position, token);
    const std::vector<double> out = attend(position, q, position, 1);
    for (Index i = 0; i < size(banks); ++i) {
      if (options_.kind == Kind::unbounded || size(banks[at(i)]) <= options_.budget) continue;
      Index goes = lowest(banks[at(i)], options_.recent);
      if (adopt) goes = adopt(i, goes);
      banks[at(i)].erase(banks[at(i)].begin() + goes);
      evicted_until = next;
    }
    return out;
  }
  // Appends without attention or eviction; then attend(...) row by row and shrink().
  void append(Index position, const ModelToken& token) {
    for (auto& bank : banks) {
      bank.push_back(token);
      bank.back().position = position;
      bank.back().score = bank.back().last = 0;
    }
    ++seen;
    next = position + 1;
  }
  // The row at a position sees tokens up to it. Adds the weights to scores, sets `last`.
  std::vector<double> attend(Index position, const std::vector<double>& q, Index, double) {
    const Index group = options_.heads / options_.kv_heads;
    std::vector<double> out(at(options_.heads * options_.dim));
    for (auto& bank : banks) {
      for (ModelToken& t : bank) t.last = 0;
    }
    for (Index h = 0; h < options_.heads; ++h) {
      const Index g = h / group;
      auto& bank = banks[at(options_.per_head ? g : 0)];
      std::vector<double> x;
      double top = -INFINITY, sum = 0;
      for (const ModelToken& t : bank) {
        double logit = -INFINITY;
        if (t.position <= position) {
          logit = 0;
          for (Index d = 0; d < options_.dim; ++d) {
            logit += q[at(h * options_.dim + d)] * t.k[at(g * options_.dim + d)];
          }
          logit =
              logit / std::sqrt(double(options_.dim)) - slope(h) * double(position - t.position);
        }
        x.push_back(logit);
        top = std::max(top, logit);
      }
      for (const double logit : x) sum += std::exp(logit - top);
      for (std::size_t j = 0; j < bank.size(); ++j) {
        const double weight = std::exp(x[j] - top) / sum;
        bank[j].last += weight;
        bank[j].score += weight;
        for (Index d = 0; d < options_.dim; ++d) {
          out[at(h * options_.dim + d)] += weight * bank[j].v[at(g * options_.dim + d)];
        }
      }
    }
    return out;
  }
  double worth(const ModelToken& t) const {
    switch (options_.kind) {
      case Kind::tova: return t.last;
      case Kind::heavy: return t.score;
      default: return double(t.position);
    }
  }
  Index lowest(const std::vector<ModelToken>& bank, Index recent) const {
    Index best = -1;
    for (Index i = 0; i < size(bank) - recent; ++i) {
      if (bank[at(i)].position < options_.sinks) continue;
      if (best < 0 || worth(bank[at(i)]) < worth(bank[at(best)])) best = i;
    }
    return best;
  }
  // Drops what is too much, with the worths as they stand.
  void shrink() {
    for (auto& bank : banks) {
      while (options_.kind != Kind::unbounded && size(bank) > options_.budget) {
        bank.erase(bank.begin() + lowest(bank, options_.recent));
        evicted_until = next;
      }
    }
  }
  static double slope(Index h) { return 0.02 * double(h + 1); }

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  template <class T>
  static Index size(const T& x) {
    return static_cast<Index>(x.size());
  }
  ModelOptions options_;
};

}  // namespace support

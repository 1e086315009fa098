// SPDX-License-Identifier: Apache-2.0
//
// The adjoint of oracle.hpp, row by row and step by step, in the type T: what right gradients are
// (double), how well plain float32 code does (float), and how large the terms are that each of
// them is a sum of (Terms::absolute), which is what its rounding errors are measured by.
//
//   d a_j = dout . v_j     d l_j = a_j (d a_j - sum_k a_k d a_k)     dv_j += a_j dout
// then the scores in reverse, then q, k and the scale. `moved` displaces every operand and
// parameter along a direction, so that differences of the oracle can check all of this.

#pragma once

#include "oracle.hpp"

namespace oracle {

enum class Terms { signed_sum, absolute };

template <class T>
struct Gradient {
  Array<T> q, k, v, gate_keys;
  // Per score: a factor per head; Bias [batch, heads, q_len, kv_len]; Alibi per head; Relative and
  // Cope [tables, rows, dim]; T5Bias [heads, buckets]; nothing for the others.
  std::vector<std::vector<T>> scores;
  std::vector<T> sinks;
  T scale = 0;

  template <class F>
  void each_list(const F& f) {
    f(q.data), f(k.data), f(v.data), f(gate_keys.data);
    for (auto& s : scores) f(s);
    f(sinks);
  }
};

inline std::size_t count(Index n) { return static_cast<std::size_t>(n); }

// How many parameters a score has.
inline Index parameters(const Score& score, const Case& c) {
  const auto [batch, heads, q_len, v_dim] = c.extents();
  if (std::holds_alternative<Factor>(score) || std::holds_alternative<Alibi>(score)) return heads;
  if (std::holds_alternative<Bias>(score)) return batch * heads * q_len * c.k.extent[2];
  if (const auto* s = std::get_if<T5Bias>(&score)) {
    return heads * static_cast<Index>(s->table.empty() ? 0 : s->table[0].size());
  }
  const auto size = [](const Table& table) { return static_cast<Index>(table.data.size()); };
  if (const auto* s = std::get_if<Relative>(&score)) return size(s->table);
  if (const auto* s = std::get_if<Cope>(&score)) return size(s->table);
  return 0;
}

template <class T>
Gradient<T> zero_gradient(const Case& c) {
  Gradient<T> g;
  g.q = Array<T>(c.q.extent);
  g.k = Array<T>(c.k.extent);
  g.v = Array<T>(c.v.extent);
  for (const Score& s : c.scores) {
    g.scores.emplace_back(count(parameters(s, c)));
    if (const auto* cope = std::get_if<Cope>(&s)) g.gate_keys = Array<T>(cope->gate_keys.extent);
  }
  g.sinks.resize(c.sinks.size());
  return g;
}

// What one row's logits feel on their way back.
template <class T>
struct RowAdjoint {
  const Case& c;
  bool absolute;
  std::vector<T> logit, q;
  T scale = 0;
  std::vector<std::vector<T>> gate;   // of each key of the gates' stream, as it was encoded

  T sign(T x) const { return absolute ? std::abs(x) : x; }
  T seen(const Row<T>& row, std::size_t j) const { return row.visible[j] ? logit[j] : T(0); }
  // The adjoint of scale * q . x with `d` on it; returns nothing for x itself.
  template <class X>
  void product(const Row<T>& row, T d, const X& x, bool scaled) {
    const T by = scaled ? row.scale : T(1);
    T blur = 0;   // a rotation leaves a rounding of the whole in each component
    if (absolute && !c.encodings.empty()) {
      T most = 0, most_q = 0;
      for (std::size_t i = 0; i < q.size(); ++i) {
        most = std::max(most, std::abs(static_cast<T>(x(static_cast<Index>(i)))));
        most_q = std::max(most_q, std::abs(row.q[i]));
      }
      blur = T(1e-7) * most * most_q;
    }
    for (std::size_t i = 0; i < q.size(); ++i) {
      const T component = static_cast<T>(x(static_cast<Index>(i)));
      q[i] += d * by * sign(component);
      if (scaled) scale += d * (sign(row.q[i] * component) + blur);
    }
  }
};

template <class T>
void adjoint(const Factor& s, const Row<T>& row, RowAdjoint<T>& d, std::vector<T>& to) {
  const T factor = static_cast<T>(s.of(row.query));
  for (std::size_t j = 0; j < d.logit.size(); ++j) {
    if (!row.visible[j]) continue;
    to[count(row.query.head)] += d.logit[j] * (d.absolute ? row.size[j] : row.logit[j]);
    d.logit[j] *= d.sign(factor);
  }
}
template <class T>
void adjoint(const Pointwise& s, const Row<T>& row, RowAdjoint<T>& d, std::vector<T>&) {
  for (std::size_t j = 0; j < d.logit.size(); ++j) {
    if (!row.visible[j]) continue;
    const double x = static_cast<double>(row.logit[j]), h = 1e-7 * (0.1 + std::abs(x));
    const double slope = (s.f(x + h, row.query, row.key[j]) - s.f(x - h, row.query, row.key[j]));
    d.logit[j] *= d.sign(static_cast<T>(slope / (2 * h)));
  }
}
template <class T>
void adjoint(const Bias&, const Row<T>& row, RowAdjoint<T>& d, std::vector<T>& to) {
  const Index at = (row.query.batch * d.c.q.extent[1] + row.query.head) * d.c.q.extent[2];
  for (std::size_t j = 0; j < d.logit.size(); ++j) {
    to[count((at + row.query.row) * d.c.k.extent[2]) + j] += d.seen(row, j);
  }
}
template <class T>
void adjoint(const Alibi&, const Row<T>& row, RowAdjoint<T>& d, std::vector<T>& to) {
  for (std::size_t j = 0; j < d.logit.size(); ++j) {
    const T distance = static_cast<T>(std::abs(row.query.position - row.key[j].position));
    to[count(row.query.head)] += d.sign(-T(1)) * d.seen(row, j) * distance;
  }
}
template <class T>
void to_table(const Table& table, const Row<T>& row, RowAdjoint<T>& d, Index n, T felt, bool scaled,
              std::vector<T>& to) {
  const Index head = row.query.head;
  d.product(row, felt, [&](Index i) { return table(head, n, i); }, scaled);
  const Index at = ((table.tables == 1 ? 0 : head) * table.rows + n) * table.dim;
  T blur = 0;   // as in product
  for (const T x : row.q) blur = std::max(blur, T(1e-7) * std::abs(x));
  if (!d.absolute || d.c.encodings.empty()) blur = 0;
  for (std::size_t i = 0; i < row.q.size(); ++i) {
    to[count(at) + i] += felt * (scaled ? row.scale : T(1)) * (d.sign(row.q[i]) + blur);
  }
}
template <class T>
void adjoint(const Relative& s, const Row<T>& row, RowAdjoint<T>& d, std::vector<T>& to) {
  for (std::size_t j = 0; j < d.logit.size(); ++j) {
    Index n = std::max<Index>(row.query.position - row.key[j].position, 0);
    if (s.capped) n = std::min(n, s.table.rows - 1);
    if (n < s.table.rows) to_table(s.table, row, d, n, d.seen(row, j), true, to);
  }
}
template <class T>
void adjoint(const T5Bias& s, const Row<T>& row, RowAdjoint<T>& d, std::vector<T>& to) {
  const Index buckets = static_cast<Index>(s.table[count(row.query.head)].size());
  for (std::size_t j = 0; j < d.logit.size(); ++j) {
    const Index n =
        T5Bias::bucket(row.query.position - row.key[j].position, buckets, s.max_distance);
    to[count(row.query.head * buckets + n)] += d.sign(static_cast<T>(s.scale)) * d.seen(row, j);
  }
}
template <class T>
void adjoint(const SoftCap& s, const Row<T>& row, RowAdjoint<T>& d, std::vector<T>&) {
  for (std::size_t j = 0; j < d.logit.size(); ++j) {
    if (!row.visible[j]) continue;
    const T t = std::tanh(row.logit[j] / static_cast<T>(s.cap));
    d.logit[j] *= 1 - t * t;
  }
}

// The key whose product with the query is the gate's logit, where it is not the logit itself.
template <class T>
std::vector<T> gate_key(const Cope& s, const Row<T>& row, std::size_t j) {
  std::vector<T> key(row.q.size());
  for (std::size_t i = 0; i < key.size(); ++i) {
    const Index at = static_cast<Index>(j), width = static_cast<Index>(i);
    key[i] = s.gates == Cope::Gates::values
                 ? row.value(at, width)
                 : static_cast<T>(s.gate_keys(row.query.batch,
                                              row.query.head / (s.heads / s.gate_keys.extent[1]),
                                              at, width));
  }
  if (s.gates == Cope::Gates::keys) {
    for (const Rope& rope : *row.encodings) rope.encode(key, row.key[j].position);
  }
  return key;
}

// Floor and ceiling have no derivative, so at an integer and at or above N - 1 the slope is 0.
template <class T>
void adjoint(const Cope& s, const Row<T>& row, RowAdjoint<T>& d, std::vector<T>& to) {
  const T last = static_cast<T>(s.table.rows - 1);
  const auto z = [&](Index n) {
    return (s.form_b ? row.scale : T(1)) * dot(row.q, s.table, row.query.head, n);
  };
  const std::vector<T> position = s.positions(row);
  T felt = 0;   // sum of d loss / d position over the keys at least as old
  for (std::size_t j = 0; j < d.logit.size(); ++j) {
    if (!row.visible[j]) continue;
    const T p = std::min(position[j], last), w = p - std::floor(p), db = d.logit[j];
    const Index low = static_cast<Index>(std::floor(p)), high = static_cast<Index>(std::ceil(p));
    to_table(s.table, row, d, low, db * (1 - w), s.form_b, to);
    to_table(s.table, row, d, high, db * w, s.form_b, to);
    const T slope = position[j] <= last
                        ? (d.absolute && low != high ? std::abs(z(high)) + std::abs(z(low))
                                                     : z(high) - z(low))
                        : T(0);
    const T older = felt;
    felt += db * slope;
    std::vector<T> key;
    T x = row.logit[j];
    if (s.gates != Cope::Gates::logits) {
      key = gate_key(s, row, j);
      x = 0;
      for (std::size_t i = 0; i < key.size(); ++i) x += row.q[i] * key[i];
      x *= row.scale;
    }
    const T gate = T(1) / (T(1) + std::exp(-x));
    const T dx = gate * (1 - gate) * (s.own_token ? felt : older);
    if (s.gates == Cope::Gates::logits) {
      d.logit[j] += dx;
      continue;
    }
    d.product(row, dx, [&](Index i) { return key[count(i)]; }, true);
    for (std::size_t i = 0; i < key.size(); ++i) {
      d.gate[j][i] += dx * row.scale * d.sign(row.q[i]);
    }
  }
}

template <class T>
void undo(const std::vector<Rope>& encodings, std::vector<T>& x, Index position, bool absolute) {
  for (auto rope = encodings.rbegin(); rope != encodings.rend(); ++rope) {
    if (!absolute) {
      rope->encode(x, -position);
      continue;
    }
    T sum = 0;   // rotations mix pairs; this is no less
    for (const T a : x) sum = std::max(sum, a);
    for (T& a : x) a = 2 * sum;
  }
}

// dout: [batch, heads, q_len, v_dim].
template <class T>
Gradient<T> backward(const Case& c, const Array<double>& dout, Terms terms = Terms::signed_sum) {
  const auto [batch, heads, q_len, v_dim] = c.extents();
  const Index kv_heads = c.k.extent[1], dim = c.q.extent[3];
  Gradient<T> g = zero_gradient<T>(c);
  const bool absolute = terms == Terms::absolute;
  const auto sign = [absolute](T x) { return absolute ? std::abs(x) : x; };

  for (Index b = 0; b < batch; ++b) {
    const Index rows = c.q_len.empty() ? q_len : c.q_len[count(b)];
    const Index keys = c.kv_len.empty() ? c.k.extent[2] : c.kv_len[count(b)];
    const auto k_position = [&](Index j) {
      return c.k_position.empty() ? j : c.k_position[count(b)][count(j)];
    };
    for (Index h = 0; h < heads; ++h) {
      const Index kv = h / (heads / kv_heads);
      std::vector<std::vector<T>> encoded(count(keys));
      std::vector<std::vector<T>> d_key(count(keys), std::vector<T>(count(dim)));
      RowAdjoint<T> all{c, absolute, {}, {}, 0, d_key};
      for (Index j = 0; j < keys; ++j) {
        for (Index x = 0; x < dim; ++x) {
          encoded[count(j)].push_back(static_cast<T>(c.k(b, kv, j, x)));
        }
        for (const Rope& rope : c.encodings) rope.encode(encoded[count(j)], k_position(j));
      }
      for (Index i = 0; i < rows; ++i) {
        Row<T> row;
        row.query = {b, h, i,
                     c.q_position.empty() ? keys - rows + i : c.q_position[count(b)][count(i)]};
        row.encodings = &c.encodings;
        row.scale = static_cast<T>(c.scale.value_or(1 / std::sqrt(static_cast<double>(dim))));
        row.value = [&](Index j, Index x) { return static_cast<T>(c.v(b, kv, j, x)); };
        for (Index x = 0; x < dim; ++x) row.q.push_back(static_cast<T>(c.q(b, h, i, x)));
        for (const Rope& rope : c.encodings) rope.encode(row.q, row.query.position);
        for (Index j = 0; j < keys; ++j) {
          row.key.push_back({j, k_position(j)});
          row.visible.push_back(std::all_of(c.masks.begin(), c.masks.end(), [&](const auto& m) {
            return m(row.query, row.key.back());
          }));
          T sum = 0, size = c.encodings.empty() ? T(0) : T(1e-7);
          for (Index x = 0; x < dim; ++x) {
            sum += row.q[count(x)] * encoded[count(j)][count(x)];
            size += std::abs(row.q[count(x)] * encoded[count(j)][count(x)]);
          }
          row.logit.push_back(row.scale * sum);
          row.size.push_back(row.scale * size);
        }
        const auto hide = [](Row<T>& r) {
          for (std::size_t j = 0; j < r.logit.size(); ++j) {
            if (!r.visible[j]) r.logit[j] = -std::numeric_limits<T>::infinity();
          }
        };
        hide(row);
        std::vector<Row<T>> received;
        for (const Score& score : c.scores) {
          received.push_back(row);
          std::visit([&](const auto& s) { s.apply(row); }, score);
          hide(row);
        }

        T maximum = c.sinks.empty() ? -std::numeric_limits<T>::infinity()
                                    : static_cast<T>(c.sinks[count(h)]);
        const T sink = maximum;
        for (const T x : row.logit) maximum = std::max(maximum, x);
        if (maximum == -std::numeric_limits<T>::infinity()) continue;   // sees nothing
        T total = std::exp(sink - maximum);
        for (const T x : row.logit) total += std::exp(x - maximum);
        std::vector<T> weight(count(keys)), da(count(keys));
        T mean = 0;
        for (std::size_t j = 0; j < weight.size(); ++j) {
          if (!row.visible[j]) continue;
          weight[j] = std::exp(row.logit[j] - maximum) / total;
          for (Index x = 0; x < v_dim; ++x) {
            const T up = static_cast<T>(dout(b, h, i, x));
            da[j] += sign(up * row.value(static_cast<Index>(j), x));
            g.v(b, kv, static_cast<Index>(j), x) += weight[j] * sign(up);
          }
          mean += weight[j] * da[j];
        }
        RowAdjoint<T> d{c, absolute, std::vector<T>(count(keys)), std::vector<T>(count(dim)), 0,
                        std::move(all.gate)};
        for (std::size_t j = 0; j < weight.size(); ++j) {
          d.logit[j] = weight[j] * (absolute ? da[j] + mean : da[j] - mean);
        }
        if (!c.sinks.empty()) {
          g.sinks[count(h)] += sign(-T(1)) * std::exp(sink - maximum) / total * mean;
        }
        for (std::size_t s = c.scores.size(); s-- > 0;) {
          std::visit([&](const auto& score) { adjoint(score, received[s], d, g.scores[s]); },
                     c.scores[s]);
        }
        for (Index j = 0; j < keys; ++j) {
          if (!row.visible[count(j)]) continue;
          const std::vector<T>& key = encoded[count(j)];
          d.product(row, d.logit[count(j)], [&](Index x) { return key[count(x)]; }, true);
          for (Index x = 0; x < dim; ++x) {
            d_key[count(j)][count(x)] += d.logit[count(j)] * row.scale * sign(row.q[count(x)]);
          }
        }
        undo(c.encodings, d.q, row.query.position, absolute);
        for (Index x = 0; x < dim; ++x) g.q(b, h, i, x) += d.q[count(x)];
        g.scale += d.scale;
        all.gate = std::move(d.gate);
      }
      for (Index j = 0; j < keys; ++j) {
        undo(c.encodings, d_key[count(j)], k_position(j), absolute);
        for (Index x = 0; x < dim; ++x) g.k(b, kv, j, x) += d_key[count(j)][count(x)];
        for (const Score& score : c.scores) {
          const auto* cope = std::get_if<Cope>(&score);
          if (cope == nullptr || cope->gates == Cope::Gates::logits) continue;
          const bool own = cope->gates == Cope::Gates::keys;
          if (own) undo(c.encodings, all.gate[count(j)], k_position(j), absolute);
          for (Index x = 0; x < dim; ++x) {
            (own ? g.gate_keys : g.v)(b, kv, j, x) += all.gate[count(j)][count(x)];
          }
        }
      }
    }
  }
  return g;
}

// Every operand and parameter displaced by h along a direction.
inline Case moved(const Case& c, const Gradient<double>& by, double h) {
  Case to = c;
  const auto shift = [h](auto& list, const auto& along) {
    for (std::size_t i = 0; i < list.size(); ++i) list[i] += h * along[i];
  };
  shift(to.q.data, by.q.data), shift(to.k.data, by.k.data), shift(to.v.data, by.v.data);
  shift(to.sinks, by.sinks);
  to.scale = c.scale.value_or(1 / std::sqrt(static_cast<double>(c.q.extent[3]))) + h * by.scale;
  for (std::size_t n = 0; n < c.scores.size(); ++n) {
    const std::vector<double>& along = by.scores[n];
    if (auto* s = std::get_if<Factor>(&to.scores[n])) {
      s->of = [of = s->of, &along, h](const Query& q) { return of(q) + h * along[count(q.head)]; };
    } else if (auto* bias = std::get_if<Bias>(&to.scores[n])) {
      bias->of = [of = bias->of, &along, &c, h](const Query& q, const Key& k) {
        const Index row = (q.batch * c.q.extent[1] + q.head) * c.q.extent[2] + q.row;
        return of(q, k) + h * along[count(row * c.k.extent[2] + k.index)];
      };
    } else if (auto* alibi = std::get_if<Alibi>(&to.scores[n])) {
      shift(alibi->slopes, along);
    } else if (auto* relative = std::get_if<Relative>(&to.scores[n])) {
      shift(relative->table.data, along);
    } else if (auto* t5 = std::get_if<T5Bias>(&to.scores[n])) {
      std::size_t i = 0;
      for (auto& row : t5->table) {
        for (double& x : row) x += h * along[i++];
      }
    } else if (auto* cope = std::get_if<Cope>(&to.scores[n])) {
      shift(cope->table.data, along);
      shift(cope->gate_keys.data, by.gate_keys.data);
    }
  }
  return to;
}

inline double loss(const Case& c, const Array<double>& dout) {
  const Result<double> result = attend<double>(c);
  double sum = 0;
  for (std::size_t i = 0; i < dout.data.size(); ++i) sum += dout.data[i] * result.out.data[i];
  return sum;
}
// The derivative along a direction, by differences.
inline double derivative(const Case& c, const Array<double>& dout, const Gradient<double>& along,
                         double h = 1e-5) {
  const double near = loss(moved(c, along, h), dout) - loss(moved(c, along, -h), dout);
  const double far = loss(moved(c, along, 2 * h), dout) - loss(moved(c, along, -2 * h), dout);
  return (8 * near - far) / (12 * h);
}

}  // namespace oracle

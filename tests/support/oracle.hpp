// SPDX-License-Identifier: Apache-2.0
//
// The specification: attention over the whole matrix, one row at a time, every step in the order
// of the papers. Nothing here is tiled, vectorised or shared with the library, so that it can be
// checked by eye. T is the type everything is computed in: oracle::attend<double> says what is
// right, oracle::attend<float> says how well plain float32 code does on the same inputs.
//
//   s_j   = scale * (encoded q . encoded k_j)         hidden keys: -inf
//   l     = the scores, in written order; hidden keys are -inf again after each
//   a_j   = e^(l_j - m) / (sum_j e^(l_j - m) + e^(sink - m))
//   out   = sum_j a_j v_j      lse = m + ln(sum)      entropy = -sum a ln a, the sink included
// A row that sees nothing is 0 with lse = -inf (its sink's logit) and entropy 0.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>

namespace oracle {

using Index = std::ptrdiff_t;

// [batch, heads, time, dim], packed.
template <class T>
struct Array {
  std::array<Index, 4> extent{0, 0, 0, 0};
  std::vector<T> data;

  Array() = default;
  explicit Array(std::array<Index, 4> e, T value = T(0))
      : extent(e), data(static_cast<std::size_t>(e[0] * e[1] * e[2] * e[3]), value) {}
  T& operator()(Index b, Index h, Index t, Index d) { return data[at(b, h, t, d)]; }
  const T& operator()(Index b, Index h, Index t, Index d) const { return data[at(b, h, t, d)]; }
  std::size_t at(Index b, Index h, Index t, Index d) const {
    return static_cast<std::size_t>(((b * extent[1] + h) * extent[2] + t) * extent[3] + d);
  }
};

struct Query {
  Index batch, head, row, position;
};
struct Key {
  Index index, position;
};

// Rotates pair n by (position / scaling) * theta^(-2n/width), n = 0 .. width/2.
struct Rope {
  double theta = 10000;
  bool halves = true;   // pairs (n, n + width/2); otherwise (2n, 2n + 1)
  Index width = 0;      // 0: all of dim
  double scaling = 1;

  template <class T>
  void encode(std::vector<T>& x, Index position) const {
    const Index w = width == 0 ? static_cast<Index>(x.size()) : width;
    for (Index n = 0; n < w / 2; ++n) {
      const double angle = static_cast<double>(position) / scaling *
                           std::pow(theta, -2.0 * static_cast<double>(n) / static_cast<double>(w));
      const T c = static_cast<T>(std::cos(angle)), s = static_cast<T>(std::sin(angle));
      T& a = x[static_cast<std::size_t>(halves ? n : 2 * n)];
      T& b = x[static_cast<std::size_t>(halves ? n + w / 2 : 2 * n + 1)];
      const T rotated = a * c - b * s;
      b = a * s + b * c;
      a = rotated;
    }
  }
};

// A table of vectors, [tables, rows, dim]: one for all heads, or one per head.
struct Table {
  Index tables = 1, rows = 0, dim = 0;
  std::vector<double> data;

  double operator()(Index head, Index n, Index d) const {
    return data[static_cast<std::size_t>(((tables == 1 ? 0 : head) * rows + n) * dim + d)];
  }
};

// One row of logits on its way through the scores.
template <class T>
struct Row {
  Query query{};
  std::vector<T> q;         // encoded
  T scale = 1;              // 1 / sqrt(dim), or what Scale says
  std::vector<Key> key;
  std::vector<char> visible;
  std::vector<T> logit;     // -inf where hidden
  std::vector<T> size;      // the absolute terms of the products in it, for the size of its error
  const std::vector<Rope>* encodings = nullptr;
  std::function<T(Index key, Index d)> value;
};

template <class T>
T dot(const std::vector<T>& q, const Table& table, Index head, Index n) {
  T sum = 0;
  for (std::size_t d = 0; d < q.size(); ++d) {
    sum += q[d] * static_cast<T>(table(head, n, static_cast<Index>(d)));
  }
  return sum;
}
template <class T>
T absolute_dot(const std::vector<T>& q, const Table& table, Index head, Index n) {
  T sum = 0;
  for (std::size_t d = 0; d < q.size(); ++d) {
    sum += std::abs(q[d] * static_cast<T>(table(head, n, static_cast<Index>(d))));
  }
  return sum;
}

// l_j *= factor
struct Factor {
  std::function<double(const Query&)> of;
  template <class T>
  void apply(Row<T>& row) const {
    const T factor = static_cast<T>(of(row.query));
    for (T& x : row.logit) x *= factor;
    for (T& x : row.size) x *= std::abs(factor);
  }
};

// l_j = f(l_j)
struct Pointwise {
  std::function<double(double, const Query&, const Key&)> f;
  template <class T>
  void apply(Row<T>& row) const {
    for (std::size_t j = 0; j < row.logit.size(); ++j) {
      row.logit[j] = static_cast<T>(f(static_cast<double>(row.logit[j]), row.query, row.key[j]));
    }
  }
};

// l_j += bias
struct Bias {
  std::function<double(const Query&, const Key&)> of;
  template <class T>
  void apply(Row<T>& row) const {
    for (std::size_t j = 0; j < row.logit.size(); ++j) {
      row.logit[j] += static_cast<T>(of(row.query, row.key[j]));
    }
  }
};

// l_j -= m_h |i - j|
struct Alibi {
  std::vector<double> slopes;   // per query head
  template <class T>
  void apply(Row<T>& row) const {
    const T slope = static_cast<T>(slopes[static_cast<std::size_t>(row.query.head)]);
    for (std::size_t j = 0; j < row.logit.size(); ++j) {
      row.logit[j] -= slope * static_cast<T>(std::abs(row.query.position - row.key[j].position));
    }
  }
};

// m_h = 2^(-8h/H), h = 1 .. H, for H a power of two; otherwise the slopes of the power of two below
// and then the first, third, fifth ... of twice that power.
inline std::vector<double> alibi_slopes(Index heads) {
  Index power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  for (Index h = 1; h <= power && h <= heads; ++h) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(power)));
  }
  for (Index h = 1; static_cast<Index>(slopes.size()) < heads; h += 2) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(2 * power)));
  }
  return slopes;
}

// l_j += scale * q . rho[max(i - j, 0)]; beyond the table nothing, or the last vector if capped.
struct Relative {
  Table table;
  bool capped = false;
  template <class T>
  void apply(Row<T>& row) const {
    for (std::size_t j = 0; j < row.logit.size(); ++j) {
      Index n = std::max<Index>(row.query.position - row.key[j].position, 0);
      if (capped) n = std::min(n, table.rows - 1);
      if (n >= table.rows) continue;
      row.logit[j] += row.scale * dot(row.q, table, row.query.head, n);
      row.size[j] += row.scale * absolute_dot(row.q, table, row.query.head, n);
    }
  }
};

// l_j += scale * beta_h[bucket(max(i - j, 0))]: one bucket per distance in the first half, then
// logarithmic up to max_distance.
struct T5Bias {
  std::vector<std::vector<double>> table;   // [head][bucket]
  Index max_distance = 128;
  double scale = 1;

  static Index bucket(Index distance, Index buckets, Index max_distance) {
    const Index n = std::max<Index>(distance, 0), half = buckets / 2;
    if (n < half) return n;
    const double far = std::log(static_cast<double>(n) / static_cast<double>(half)) /
                       std::log(static_cast<double>(max_distance) / static_cast<double>(half)) *
                       static_cast<double>(half);
    return std::min(half + static_cast<Index>(std::floor(far)), buckets - 1);
  }
  template <class T>
  void apply(Row<T>& row) const {
    const auto& beta = table[static_cast<std::size_t>(row.query.head)];
    for (std::size_t j = 0; j < row.logit.size(); ++j) {
      const Index n = bucket(row.query.position - row.key[j].position,
                             static_cast<Index>(beta.size()), max_distance);
      row.logit[j] += static_cast<T>(scale) * static_cast<T>(beta[static_cast<std::size_t>(n)]);
    }
  }
};

// l_j = cap tanh(l_j / cap)
struct SoftCap {
  double cap = 0;
  template <class T>
  void apply(Row<T>& row) const {
    const T c = static_cast<T>(cap);
    for (T& x : row.logit) x = c * std::tanh(x / c);
  }
};

// Contextual position encoding (arXiv 2405.18719).
//   g_j = sigmoid(l_j), or sigmoid(scale q.k'_j) with separate gate keys k', encoded as keys are,
//   or
//         sigmoid(scale q.v_j); 0 where the key is hidden
//   P_j = sum of g_k over k >= j (over k > j without the own token), from the query outward
//   p   = min(P_j, N - 1);  l_j += (1 - w) z[floor p] + w z[ceil p],  w = p - floor p
//   z_n = q.e_n (form A), scale q.e_n (form B)
// A position that is not a number gives a logit that is not a number.
struct Cope {
  enum class Gates { logits, keys, values };
  Table table;
  bool form_b = false;
  bool own_token = true;
  Gates gates = Gates::logits;
  Array<double> gate_keys;     // [batch, kv heads, kv_len, dim]
  Index heads = 1;                       // query heads, for the group of a gate key
  std::array<double, 2> resumed{0, 0};   // gates of newer keys that this call does not see

  template <class T>
  std::vector<T> positions(const Row<T>& row) const {
    std::vector<T> position(row.logit.size());
    T sum = static_cast<T>(resumed[0] + resumed[1]);
    for (std::size_t j = row.logit.size(); j-- > 0;) {
      const T gate = row.visible[j] ? T(1) / (T(1) + std::exp(-gate_logit(row, j))) : T(0);
      position[j] = own_token ? sum + gate : sum;
      sum += gate;
    }
    return position;
  }
  template <class T>
  void apply(Row<T>& row) const {
    const T last = static_cast<T>(table.rows - 1);
    std::vector<T> z(static_cast<std::size_t>(table.rows));
    for (Index n = 0; n < table.rows; ++n) {
      z[static_cast<std::size_t>(n)] =
          (form_b ? row.scale : T(1)) * dot(row.q, table, row.query.head, n);
    }
    const std::vector<T> position = positions(row);
    for (std::size_t j = 0; j < row.logit.size(); ++j) {
      if (std::isnan(position[j])) {
        row.logit[j] = position[j];
        continue;
      }
      const T p = std::min(position[j], last);
      const T w = p - std::floor(p);
      const Index low = static_cast<Index>(std::floor(p)), high = static_cast<Index>(std::ceil(p));
      row.logit[j] += (T(1) - w) * z[static_cast<std::size_t>(low)] +
                      w * z[static_cast<std::size_t>(high)];
      // The table's product, and what a relative error of the position does to it.
      row.size[j] +=
          (form_b ? row.scale : T(1)) * absolute_dot(row.q, table, row.query.head, high) +
          p * std::abs(z[static_cast<std::size_t>(high)] - z[static_cast<std::size_t>(low)]);
    }
  }

 private:
  template <class T>
  T gate_logit(const Row<T>& row, std::size_t j) const {
    if (gates == Gates::logits) return row.logit[j];
    std::vector<T> key(row.q.size());
    const Index group = gates == Gates::keys ? heads / gate_keys.extent[1] : 1;
    for (std::size_t d = 0; d < key.size(); ++d) {
      const Index at = static_cast<Index>(j), width = static_cast<Index>(d);
      key[d] = gates == Gates::values
                   ? row.value(at, width)
                   : static_cast<T>(gate_keys(row.query.batch, row.query.head / group, at, width));
    }
    if (gates == Gates::keys) {
      for (const Rope& rope : *row.encodings) rope.encode(key, row.key[j].position);
    }
    T sum = 0;
    for (std::size_t d = 0; d < key.size(); ++d) sum += row.q[d] * key[d];
    return row.scale * sum;
  }
};

using Score = std::variant<Factor, Pointwise, Bias, Alibi, Relative, T5Bias, SoftCap, Cope>;

// One call. Tensors are [batch, heads, time, dim]; k and v may have fewer heads than q.
struct Case {
  Array<double> q, k, v;
  std::vector<std::vector<Index>> q_position, k_position;   // per batch entry; empty: bottom-right
  std::vector<Index> q_len, kv_len;                         // per batch entry; empty: all
  std::vector<std::function<bool(const Query&, const Key&)>> masks;   // all must agree
  std::optional<double> scale;                              // empty: 1 / sqrt(dim)
  std::vector<Rope> encodings;
  std::vector<Score> scores;
  std::vector<double> sinks;                                // per query head; empty: none
  std::array<Index, 4> extents() const {
    return {q.extent[0], q.extent[1], q.extent[2], v.extent[3]};
  }
};

template <class T>
struct Result {
  Array<T> out;                // [batch, heads, q_len, v_dim]
  Array<T> lse, entropy;       // [batch, heads, q_len, 1]
  Array<T> weights;            // [batch, heads, q_len, kv_len]
  Array<char> visible;         // the same: which pairs met
  Array<T> positions;          // CoPE's P, the same; empty without CoPE
  // L = max over visible pairs of scale * sum_d |q_d k_d|, times the factors, and the same of the
  // other products with the query (CoPE's and relative tables).
  double magnitude = 0;
};

template <class T>
Result<T> attend(const Case& c) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const auto [batch, heads, q_len, v_dim] = c.extents();
  const Index kv_heads = c.k.extent[1], kv_len = c.k.extent[2], dim = c.q.extent[3];
  const auto size = [](Index n) { return static_cast<std::size_t>(n); };
  const bool cope = std::any_of(c.scores.begin(), c.scores.end(),
                                [](const Score& s) { return std::holds_alternative<Cope>(s); });
  Result<T> result;
  result.out = Array<T>({batch, heads, q_len, v_dim});
  result.lse = Array<T>({batch, heads, q_len, 1}, -kInfinity);
  result.entropy = Array<T>({batch, heads, q_len, 1});
  result.weights = Array<T>({batch, heads, q_len, kv_len});
  result.visible = Array<char>({batch, heads, q_len, kv_len});
  if (cope) result.positions = Array<T>({batch, heads, q_len, kv_len});

  for (Index b = 0; b < batch; ++b) {
    const Index rows = c.q_len.empty() ? q_len : c.q_len[size(b)];
    const Index keys = c.kv_len.empty() ? kv_len : c.kv_len[size(b)];
    const auto q_position = [&](Index i) {
      return c.q_position.empty() ? keys - rows + i : c.q_position[size(b)][size(i)];
    };
    const auto k_position = [&](Index j) {
      return c.k_position.empty() ? j : c.k_position[size(b)][size(j)];
    };
    for (Index h = 0; h < heads; ++h) {
      const Index g = h / (heads / kv_heads);
      std::vector<std::vector<T>> encoded(size(keys));
      for (Index j = 0; j < keys; ++j) {
        for (Index d = 0; d < dim; ++d) encoded[size(j)].push_back(static_cast<T>(c.k(b, g, j, d)));
        for (const Rope& rope : c.encodings) rope.encode(encoded[size(j)], k_position(j));
      }
      for (Index i = 0; i < rows; ++i) {
        Row<T> row;
        row.query = {b, h, i, q_position(i)};
        row.encodings = &c.encodings;
        row.scale = static_cast<T>(c.scale.value_or(1 / std::sqrt(static_cast<double>(dim))));
        row.value = [&](Index j, Index d) { return static_cast<T>(c.v(b, g, j, d)); };
        for (Index d = 0; d < dim; ++d) row.q.push_back(static_cast<T>(c.q(b, h, i, d)));
        for (const Rope& rope : c.encodings) rope.encode(row.q, row.query.position);

        for (Index j = 0; j < keys; ++j) {
          row.key.push_back({j, k_position(j)});
          row.visible.push_back(std::all_of(c.masks.begin(), c.masks.end(), [&](const auto& m) {
            return m(row.query, row.key.back());
          }));
          result.visible(b, h, i, j) = row.visible.back();
          T sum = 0, absolute = 0;
          for (Index d = 0; d < dim; ++d) {
            const T term = row.q[size(d)] * encoded[size(j)][size(d)];
            sum += term;
            absolute += std::abs(term);
          }
          row.size.push_back(row.scale * absolute);
          row.logit.push_back(row.visible.back() ? row.scale * sum : -kInfinity);
        }
        for (const Score& score : c.scores) {
          if (const auto* walking = std::get_if<Cope>(&score)) {
            const std::vector<T> position = walking->positions(row);
            for (Index j = 0; j < keys; ++j) result.positions(b, h, i, j) = position[size(j)];
          }
          std::visit([&](const auto& s) { s.apply(row); }, score);
          for (Index j = 0; j < keys; ++j) {
            if (!row.visible[size(j)]) row.logit[size(j)] = -kInfinity;
          }
        }

        for (Index j = 0; j < keys; ++j) {
          const double m = static_cast<double>(row.size[size(j)]);
          if (row.visible[size(j)] && std::isfinite(m)) {
            result.magnitude = std::max(result.magnitude, m);
          }
        }

        const T sink = c.sinks.empty() ? -kInfinity : static_cast<T>(c.sinks[size(h)]);
        T maximum = sink;
        bool nan = false;
        for (Index j = 0; j < keys; ++j) {
          maximum = std::max(maximum, row.logit[size(j)]);
          nan = nan || std::isnan(row.logit[size(j)]);
        }
        if (nan) maximum = std::numeric_limits<T>::quiet_NaN();
        if (maximum == -kInfinity) continue;   // sees nothing: 0, -inf, 0

        const T sunk = c.sinks.empty() ? T(0) : std::exp(sink - maximum);
        T total = sunk;
        for (Index j = 0; j < keys; ++j) total += std::exp(row.logit[size(j)] - maximum);
        T entropy = sunk > 0 ? -(sunk / total) * std::log(sunk / total) : T(0);
        for (Index j = 0; j < keys; ++j) {
          if (!row.visible[size(j)]) continue;
          const T a = std::exp(row.logit[size(j)] - maximum) / total;
          result.weights(b, h, i, j) = a;
          if (!(a == 0)) entropy -= a * std::log(a);
          for (Index d = 0; d < v_dim; ++d) {
            result.out(b, h, i, d) += a * static_cast<T>(c.v(b, g, j, d));
          }
        }
        result.lse(b, h, i, 0) = maximum + std::log(total);
        result.entropy(b, h, i, 0) = entropy;
        if (nan || !std::isfinite(maximum)) {   // also where no value is read: NaN, never quietly 0
          for (Index d = 0; d < v_dim; ++d) {
            result.out(b, h, i, d) = std::numeric_limits<T>::quiet_NaN();
          }
        }
      }
    }
  }
  return result;
}

}  // namespace oracle

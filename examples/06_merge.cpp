// SPDX-License-Identifier: Apache-2.0
//
// Attention over a long text in two pieces. Each range of keys is attended alone and leaves its
// output, the logarithm of its softmax sum (lse) and its entropy; these three are all that is
// needed to get the attention over both ranges. So keys may live in different places.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;
using PerRow = Eigen::Tensor<float, 3, Eigen::RowMajor>;  // [batch, heads, time]
using heed::Index;

// What one call leaves behind.
struct Attended {
  Tensor out;
  PerRow lse, entropy;
  explicit Attended(const Tensor& q)
      : out(q.dimension(0), q.dimension(1), q.dimension(2), 1),
        lse(q.dimension(0), q.dimension(1), q.dimension(2)),
        entropy(q.dimension(0), q.dimension(1), q.dimension(2)) {}
  heed::Into into() { return {.out = out, .lse = lse, .entropy = entropy}; }
  heed::Part part() { return {.out = out, .lse = lse, .entropy = entropy}; }
};

Tensor wave(Index time, float step) {
  Tensor x(1, 2, time, 16);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = 2 * std::sin(step * float(i));
  return x;
}

int main() {
  constexpr Index length = 1000, cut = 700, queries = 3;
  const Tensor q = wave(queries, 0.7f), k = wave(length, 1.3f);
  Tensor v(1, 2, length, 1);  // a key's place, so the output is the mean place that a row attends
  std::vector<Index> place(length);
  for (Index i = 0; i < length; ++i) {
    v(0, 0, i, 0) = v(0, 1, i, 0) = float(i);
    place[std::size_t(i)] = i;
  }

  // Positions say where each piece stands in the whole; the last three rows ask. A piece is a view
  // of the same memory: nothing is copied.
  const heed::List<Index> asking(place.data() + length - queries, queries);
  const heed::Positions older{.q = asking, .k = {place.data(), cut}};
  const heed::Positions newer{.q = asking, .k = {place.data() + cut, length - cut}};
  const auto piece = [](const heed::View<const float>& x, Index first, Index last) {
    return heed::View<const float>(x.row(0, 0, first), {1, 2, last - first, x.dim()}, x.stride);
  };

  Attended a(q), b(q), merged(q), whole(q);
  heed::attend(a.into(), q, piece(k, 0, cut), piece(v, 0, cut), heed::causal, older);
  heed::attend(b.into(), q, piece(k, cut, length), piece(v, cut, length), heed::causal, newer);
  heed::merge(merged.into(), {a.part(), b.part()});
  heed::attend(whole.into(), q, k, v, heed::causal);

  std::printf("head 0   mean place      lse  entropy\n");
  const auto print = [](const char* name, const Attended& x) {
    for (Index i = 0; i < queries; ++i) {
      std::printf("%-7s %11.1f %8.3f %8.3f\n", i == 0 ? name : "", double(x.out(0, 0, i, 0)),
                  double(x.lse(0, 0, i)), double(x.entropy(0, 0, i)));
    }
  };
  print("older", a);
  print("newer", b);
  print("merged", merged);
  print("whole", whole);
}

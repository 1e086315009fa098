// SPDX-License-Identifier: Apache-2.0
//
// The calls into heed, once per encoding.

#include "attention.hpp"

namespace tasks {

namespace {

// [batch, heads, time, width / heads], from column `first` on.
template <class T>
heed::View<T> heads_of(const AttentionShape& s, T* data, Index columns, Index first) {
  const Index dim = s.width / s.heads;
  return {data + first, {s.batch, s.heads, s.time, dim}, {s.time * columns, dim, columns}};
}

struct Thirds {
  heed::View<const float> q, k, v;
  Thirds(const AttentionShape& s, const Matrix& qkv)
      : q(heads_of(s, qkv.data(), 3 * s.width, 0)),
        k(heads_of(s, qkv.data(), 3 * s.width, s.width)),
        v(heads_of(s, qkv.data(), 3 * s.width, 2 * s.width)) {}
};

heed::RowView rows_of(const AttentionShape& s, std::vector<float>& lse) {
  return heed::RowView(lse.data(), {s.batch, s.heads, s.time});
}

// The gradient of the second policy, where it has one.
template <class... Ps>
void add_learned([[maybe_unused]] const heed::PolicyGradients<Ps...>& gradients,
                 [[maybe_unused]] Eigen::Map<Matrix>& dvectors,
                 [[maybe_unused]] Eigen::Map<Matrix>& dscales) {
  if constexpr (sizeof...(Ps) > 1) {
    const auto& g = gradients.template at<1>();
    if constexpr (requires { g.table(); }) {
      dvectors += g.table();
    } else if constexpr (requires { g.values; }) {
      if (dscales.size() != Index(g.values.size())) return;   // slopes of ALiBi: fixed here
      for (Index h = 0; h < dscales.size(); ++h) {
        dscales(0, h) += static_cast<float>(g.values[static_cast<std::size_t>(h)]);
      }
    }
  }
}

}  // namespace

void attention(const AttentionShape& shape, Pe pe, const Tables& tables, const Matrix& qkv,
               Matrix& out, std::vector<float>& lse, const Look& look) {
  out.resize(shape.batch * shape.time, shape.width);
  lse.resize(static_cast<std::size_t>(shape.batch * shape.heads * shape.time));
  const Thirds in(shape, qkv);
  heed::Into into;
  into.out = heads_of(shape, out.data(), shape.width, 0);
  into.lse = rows_of(shape, lse);
  into.entropy = look.entropy;
  into.weights = look.weights;
  with_policies(pe, tables,
                [&](const auto& policies) { heed::attend(into, in.q, in.k, in.v, policies); });
}

void attention_adjoint(const AttentionShape& shape, Pe pe, const Tables& tables, const Matrix& qkv,
                       const Matrix& out, const std::vector<float>& lse, const Matrix& dout,
                       Matrix& dqkv, Eigen::Map<Matrix> dvectors, Eigen::Map<Matrix> dscales) {
  const Thirds in(shape, qkv);
  // Outputs that interleave in memory count as overlapping, so the three are copied together after.
  Matrix thirds[3];
  for (Matrix& third : thirds) third.resize(qkv.rows(), shape.width);
  const heed::GradientsInto into{.q = heads_of(shape, thirds[0].data(), shape.width, 0),
                                 .k = heads_of(shape, thirds[1].data(), shape.width, 0),
                                 .v = heads_of(shape, thirds[2].data(), shape.width, 0)};
  const auto result = heads_of(shape, out.data(), shape.width, 0);
  const auto upstream = heads_of(shape, dout.data(), shape.width, 0);
  // Rows are only read through the view.
  const auto rows = rows_of(shape, const_cast<std::vector<float>&>(lse));
  with_policies(pe, tables, [&](const auto& policies) {
    add_learned(heed::attend_backward(into, in.q, in.k, in.v, result, rows, upstream, policies),
                dvectors, dscales);
  });
  dqkv.resize(qkv.rows(), qkv.cols());
  for (Index i = 0; i < 3; ++i) dqkv.middleCols(i * shape.width, shape.width) = thirds[i];
}

}  // namespace tasks

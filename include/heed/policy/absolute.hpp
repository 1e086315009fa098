// SPDX-License-Identifier: Apache-2.0
//
// Absolute positions, which are added to a model's input and not to q and k:
//
//   x[b, t] += table[first + t]
//   sinusoidal[p, 2i] = sin(p / 10000^(2i / width)), [p, 2i + 1] = cos of the same
//
// x: [batch, time, width] or [time, width]. add_positions_adjoint gives the table's gradient; x's
// own passes unchanged. Learned tables are the user's; the sinusoidal one is
// that of Vaswani et al., arXiv 1706.03762.

#pragma once

#include <cmath>

#include "../core/view.hpp"

namespace heed::inline HEED_ABI {

namespace detail {

// A rank-3 row-major tensor or a row-major matrix of float, as rows.
template <class T>
struct InputRows {
  T* data = nullptr;
  Index batch = 1, time = 0, width = 0, stride = 0;

  template <class Inputs>
  explicit InputRows(Inputs&& x) : data(x.data()) {
    using X = std::remove_cvref_t<Inputs>;
    check_element<Pointee<decltype(x.data())>, T>();
    if constexpr (TensorLike<Inputs>) {
      check_tensor<Inputs>();
      static_assert(X::NumDimensions == 3,
                    "heed: add_positions takes a rank-3 tensor [batch, time, width] or a row-major "
                    "matrix [time, width]");
      batch = x.dimension(0), time = x.dimension(1), width = stride = x.dimension(2);
    } else {
      check_matrix<Inputs>();
      static_assert(bool(X::IsRowMajor),
                    "heed: add_positions takes a row-major matrix [time, width]");
      time = x.rows(), width = x.cols(), stride = x.outerStride();
    }
  }
  // f(row of width elements, t) for every row.
  template <class F>
  void each(const F& f) const {
    for (Index b = 0; b < batch; ++b) {
      for (Index t = 0; t < time; ++t) f(data + (b * time + t) * stride, t);
    }
  }
};

template <class T>
void check_positions(const char* function, const InputRows<T>& x, const TableView& table,
                     Index first) {
  using contract::text;
  if (table.tables != 1 || table.dim != x.width) {
    contract::refuse(function,
                     "table is " + text(table.tables) + " table of width " + text(table.dim),
                     "1 of x's width " + text(x.width));
  }
  if (first < 0 || first > table.rows || x.time > table.rows - first) {
    contract::refuse(function,
                     "table has " + text(table.rows) + " rows for " + text(x.time) +
                         " positions from " + text(first) + " on",
                     "a row for every position");
  }
}

}  // namespace detail

// In place. x: a rank-3 row-major tensor or a row-major matrix of float. table: a row-major matrix
// [>= first + time, width]. first: the position of x's first row.
template <class Inputs>
void add_positions(Inputs&& x, const TableView& table, Index first = 0) {
  const detail::InputRows<float> rows(x);
  detail::check_positions("add_positions", rows, table, first);
  rows.each([&](float* row, Index t) {
    Eigen::Map<Eigen::ArrayXf>(row, rows.width) +=
        Eigen::Map<const Eigen::ArrayXf>(table.row(0, first + t), rows.width);
  });
}

// d loss / d table, added to d_table [>= first + time, width]: the sum of dx over the batch. dx: as
// x above, d loss / d x after add_positions, which is also that before it.
template <class Inputs, class Table>
void add_positions_adjoint(const Inputs& dx, Table&& d_table, Index first = 0) {
  const detail::InputRows<const float> rows(dx);
  const detail::InputRows<float> to(d_table);
  detail::check_positions("add_positions_adjoint", rows, TableView(d_table), first);
  rows.each([&](const float* row, Index t) {
    Eigen::Map<Eigen::ArrayXf>(to.data + (first + t) * to.stride, rows.width) +=
        Eigen::Map<const Eigen::ArrayXf>(row, rows.width);
  });
}

// [n, width]; computed in double, rounded once.
inline Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> sinusoidal(
    Index n, Index width) {
  if (n < 0 || width < 0) {
    contract::refuse("sinusoidal",
                     "n is " + contract::text(n) + " and width " + contract::text(width),
                     "numbers of at least 0");
  }
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> table(n, width);
  for (Index c = 0; c < width; ++c) {
    const double exponent = static_cast<double>(c / 2 * 2) / static_cast<double>(width);
    const double frequency = std::pow(10000.0, -exponent);
    for (Index p = 0; p < n; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      table(p, c) = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace heed::inline HEED_ABI

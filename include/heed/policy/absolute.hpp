// SPDX-License-Identifier: Apache-2.0
//
// Absolute positions, which are added to a model's input and not to q and k:
//
//   x[b, t] += table[first + t]
//   sinusoidal[p, 2i] = sin(p / 10000^(2i / width)), [p, 2i + 1] = cos of the same
//
// x: [batch, time, width] or [time, width]. Learned tables are the user's; the sinusoidal one is
// that of Vaswani et al., arXiv 1706.03762.

#pragma once

#include <cmath>

#include "../core/view.hpp"

namespace heed::inline HEED_ABI {

// In place. x: a rank-3 row-major tensor or a row-major matrix of float. table: a row-major matrix
// [>= first + time, width]. first: the position of x's first row.
template <class Inputs>
void add_positions(Inputs&& x, const TableView& table, Index first = 0) {
  using X = std::remove_cvref_t<Inputs>;
  using contract::text;
  detail::check_element<detail::Pointee<decltype(x.data())>, float>();
  Index batch = 1, time = 0, width = 0, row_stride = 0;
  if constexpr (detail::TensorLike<Inputs>) {
    detail::check_tensor<Inputs>();
    static_assert(X::NumDimensions == 3,
                  "heed: add_positions takes a rank-3 tensor [batch, time, width] or a row-major "
                  "matrix [time, width]");
    batch = x.dimension(0), time = x.dimension(1), width = x.dimension(2), row_stride = width;
  } else {
    detail::check_matrix<Inputs>();
    static_assert(bool(X::IsRowMajor),
                  "heed: add_positions takes a row-major matrix [time, width]");
    time = x.rows(), width = x.cols(), row_stride = x.outerStride();
  }
  if (table.tables != 1 || table.dim != width) {
    contract::refuse("add_positions",
                     "table is " + text(table.tables) + " table of width " + text(table.dim),
                     "1 of x's width " + text(width));
  }
  if (first < 0 || first > table.rows || time > table.rows - first) {
    contract::refuse("add_positions",
                     "table has " + text(table.rows) + " rows for " + text(time) +
                         " positions from " + text(first) + " on",
                     "a row for every position");
  }
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < time; ++t) {
      using Row = Eigen::Map<Eigen::ArrayXf>;
      Row(x.data() + (b * time + t) * row_stride, width) +=
          Eigen::Map<const Eigen::ArrayXf>(table.row(0, first + t), width);
    }
  }
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

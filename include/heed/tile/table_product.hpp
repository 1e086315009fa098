// SPDX-License-Identifier: Apache-2.0
//
// The queries of a block against a table of vectors, the shape that CoPE and relative encodings
// share: z[n][lane] = packed query of the lane . table row n. The result still has the folded
// scale and factors of the packed queries; multiply by Rows::unfold to take them out.

#pragma once

#include "../core/buffer.hpp"
#include "../core/view.hpp"
#include "block.hpp"

namespace heed::inline HEED_ABI {

// z: [count][kRows], for table rows [0, count).
inline void product_with_table(const TableView& table, const Rows& rows, float* z, Index count) {
  const simd::ForwardTable& simd = simd::forward();
  const auto product = [&](Index head, float* to) {
    const float* vectors[kKeys];
    for (Index n = 0; n < count; n += kKeys) {
      const Index some = std::min(kKeys, count - n);
      for (Index i = 0; i < some; ++i) vectors[i] = table.row(head, n + i);
      simd.product(to + n * kRows, rows.packed, rows.dim, vectors, some, rows.reach);
    }
  };
  product(rows.head[0], z);
  if (table.tables == 1 || rows.one_head) return;
  // Stacked heads with a table each: every table against all lanes, each lane keeps its own.
  Buffer<float> other(count * kRows);
  for (Index lane = 1; lane < rows.count; ++lane) {
    if (rows.head[lane] == rows.head[0]) continue;
    if (rows.head[lane] != rows.head[lane - 1]) product(rows.head[lane], other.data());
    for (Index n = 0; n < count; ++n) z[n * kRows + lane] = other[n * kRows + lane];
  }
}

// d loss / d table of a TableView: [tables * rows, dim] beside padding.
class TableGradient {
 public:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using View = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;

  TableGradient() = default;
  explicit TableGradient(const TableView& table)
      : rows_(table.rows),
        dim_(table.dim),
        values_(Matrix::Zero(table.tables * table.rows, padded(table.dim))) {}

  // [rows, dim] of one table.
  View table(Index head = 0) const {
    return View(values_.data() + head * rows_ * width(), rows_, dim_,
                Eigen::OuterStride<>(width()));
  }
  float* row(Index head, Index n) { return values_.data() + (head * rows_ + n) * width(); }
  Index width() const { return values_.cols(); }
  Index tables() const { return rows_ == 0 ? 0 : values_.rows() / rows_; }
  TableGradient& operator+=(const TableGradient& other) {
    values_ += other.values_;
    return *this;
  }
  static constexpr Index padded(Index dim) {
    return (dim + simd::kPad - 1) / simd::kPad * simd::kPad;
  }

 private:
  Index rows_ = 0, dim_ = 0;
  Matrix values_;
};

// The adjoint of product_with_table: from dz [count][kRows], the adjoint of z before any factor
// was taken out of it, adds dz' table to dq and dz packed to the table's gradient.
inline void table_adjoint(const TableView& table, const Rows& rows, const float* dz, Index count,
                          float* dq, TableGradient& gradient) {
  const Index width = rows.padded_dim;
  alignas(64) float ones[kRows];
  std::fill_n(ones, kRows, 1.0f);
  const float* queries[kRows];
  for (Index lane = 0; lane < kRows; ++lane) queries[lane] = rows.scaled + lane * width;
  Buffer<float> padded(kKeys * width), masked(kKeys * kRows);
  const auto add = [&](Index head, const float* d, Index n, Index some) {
    const float* vectors[kKeys];
    for (Index i = 0; i < some; ++i) {
      float* const to = padded.data() + i * width;
      std::copy_n(table.row(head, n + i), table.dim, to);
      std::fill_n(to + table.dim, width - table.dim, 0.0f);
      vectors[i] = to;
    }
    simd::forward().weighted_sum(dq, width, d, vectors, some, ones, simd::kReachAll, 0, kRows);
    simd::backward().row_sum(gradient.row(table.tables == 1 ? 0 : head, n), width, d, queries, some,
                             rows.count, simd::kReachAll);
  };
  for (Index n = 0; n < count; n += kKeys) {
    const Index some = std::min(kKeys, count - n);
    const float* const d = dz + n * kRows;
    if (table.tables == 1 || rows.one_head) {
      add(rows.head[0], d, n, some);
      continue;
    }
    for (Index lane = 0; lane < rows.count; ++lane) {   // once per head of the block
      const Index head = rows.head[lane];
      if (lane > 0 && head == rows.head[lane - 1]) continue;
      for (Index i = 0; i < some * kRows; ++i) {
        const Index of = i % kRows;
        masked[i] = of < rows.count && rows.head[of] == head ? d[i] : 0.0f;
      }
      add(head, masked.data(), n, some);
    }
  }
}

}  // namespace heed::inline HEED_ABI

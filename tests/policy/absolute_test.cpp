// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/absolute.hpp"

#include <unsupported/Eigen/CXX11/Tensor>

#include "block.hpp"

namespace heed {
namespace {

using test::refusal;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

TEST(Absolute, AddsTheRowsFromFirstOn) {
  const Matrix table = Matrix::Random(10, 3);
  Matrix x = Matrix::Random(4, 3);
  const Matrix before = x;
  add_positions(x, table);
  EXPECT_EQ(x, before + table.topRows(4));
  x = before;
  add_positions(x, table, 6);
  EXPECT_EQ(x, before + table.bottomRows(4));
}

TEST(Absolute, AddsToEveryBatchEntry) {
  const Matrix table = Matrix::Random(5, 3);
  Eigen::Tensor<float, 3, Eigen::RowMajor> x(2, 4, 3);
  x.setConstant(1);
  add_positions(x, table, 1);
  for (Index b = 0; b < 2; ++b) {
    for (Index t = 0; t < 4; ++t) {
      for (Index c = 0; c < 3; ++c) EXPECT_EQ(x(b, t, c), 1 + table(t + 1, c));
    }
  }
}

TEST(Absolute, WritesThroughStridedRefs) {
  Matrix whole = Matrix::Zero(4, 8);
  const Matrix table = Matrix::Random(2, 3);
  Eigen::Ref<Matrix, 0, Eigen::OuterStride<>> part = whole.block(1, 2, 2, 3);
  add_positions(part, table);
  EXPECT_EQ(whole.block(1, 2, 2, 3), table);
  EXPECT_EQ((whole.array() != 0).count(), 6);
}

TEST(Absolute, WrongTablesAreRefused) {
  Matrix x = Matrix::Zero(4, 3);
  const Matrix narrow = Matrix::Zero(9, 2), small = Matrix::Zero(5, 3);
  EXPECT_EQ(refusal([&] { add_positions(x, narrow); }),
            "heed::add_positions: table is 1 table of width 2; expected 1 of x's width 3");
  EXPECT_EQ(refusal([&] { add_positions(x, small, 2); }),
            "heed::add_positions: table has 5 rows for 4 positions from 2 on; expected a row for every "
            "position");
  EXPECT_NE(refusal([&] { add_positions(x, small, -1); }), "");
  EXPECT_NE(refusal([&] { add_positions(x, small, std::numeric_limits<Index>::max()); }), "");
  EXPECT_EQ(refusal([&] { add_positions(x, small, 1); }), "");
}

TEST(Absolute, SinusoidalValues) {
  const Matrix table = sinusoidal(60, 4);
  EXPECT_EQ(table.rows(), 60);
  EXPECT_TRUE(table.row(0).isApprox(Eigen::RowVector4f{0, 1, 0, 1}));
  // Frequencies 1 and 1/100.
  EXPECT_TRUE(table.row(50).isApprox(Eigen::RowVector4f{
      std::sin(50.0f), std::cos(50.0f), std::sin(0.5f), std::cos(0.5f)}));
  EXPECT_EQ(sinusoidal(3, 5).cols(), 5);   // an odd width ends with a sine
  EXPECT_EQ(sinusoidal(0, 4).rows(), 0);
  EXPECT_NE(refusal([] { sinusoidal(-1, 4); }), "");
}

}  // namespace
}  // namespace heed

// SPDX-License-Identifier: Apache-2.0
//
// Views: where an element stands, and what the helpers make of Eigen's types.

#include <gtest/gtest.h>

#include <heed/core/view.hpp>
#include <optional>
#include <vector>

namespace {

using heed::Index;
using heed::View;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

TEST(View, PackedIsRowMajor) {
  std::vector<float> x(2 * 3 * 4 * 5);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const View<float> v(x.data(), {2, 3, 4, 5});
  EXPECT_EQ(v.row(1, 2, 3)[4], 119);
  EXPECT_EQ(v.row(0, 1, 0)[0], 20);
  EXPECT_EQ(v.batch(), 2);
  EXPECT_EQ(v.heads(), 3);
  EXPECT_EQ(v.time(), 4);
  EXPECT_EQ(v.dim(), 5);
}
TEST(View, StridesMayBeZeroOrNegative) {
  float x[6] = {0, 1, 2, 3, 4, 5};
  const View<float> reversed(x + 4, {1, 1, 3, 2}, {0, 0, -2});
  EXPECT_EQ(reversed.row(0, 0, 0)[0], 4);
  EXPECT_EQ(reversed.row(0, 0, 2)[1], 1);
  const View<float> broadcast(x, {7, 8, 9, 2}, {0, 0, 0});
  EXPECT_EQ(broadcast.row(6, 7, 8)[1], 1);
}
TEST(View, BecomesAViewOfConst) {
  float x[2] = {1, 2};
  const View<float> v(x, {1, 1, 1, 2});
  const View<const float> c = v;
  EXPECT_EQ(c.data, x);
  EXPECT_EQ(c.extent, v.extent);
}
TEST(View, EmptyWhenAnyExtentIsZero) {
  for (int zero = 0; zero < 4; ++zero) {
    std::array<Index, 4> e{2, 2, 2, 2};
    e[std::size_t(zero)] = 0;
    EXPECT_TRUE(View<float>(nullptr, e).empty());
  }
  EXPECT_FALSE(View<float>(nullptr, {1, 1, 1, 1}).empty());
}
TEST(View, SplitHeadsKeepsTheOuterStride) {
  Matrix m(3, 10);
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(i);
  const View<float> all(heed::split_heads(m, 5));
  EXPECT_EQ(all.extent, (std::array<Index, 4>{1, 5, 3, 2}));
  EXPECT_EQ(all.row(0, 4, 2)[1], m(2, 9));
  const View<const float> right(heed::split_heads(m.rightCols(6), 3));
  EXPECT_EQ(right.row(0, 1, 2)[0], m(2, 6));
}
TEST(View, SplitHeadsRefusesInWords) {
  const Matrix m = Matrix::Zero(3, 10);
  try {
    heed::split_heads(m, 4);
    FAIL() << "10 columns are not 4 heads";
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("10 columns"), std::string::npos) << e.what();
  }
}
TEST(View, TablesAreSharedOrPerHead) {
  Matrix m(4, 3);
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(i);
  const heed::TableView shared(m);
  EXPECT_EQ(shared.row(7, 2), m.data() + 6);
  const heed::TableView own(m.data(), 2, 2, 3);
  EXPECT_EQ(own.row(1, 1), m.data() + 9);
  const heed::TableView block(m.leftCols(2));
  EXPECT_EQ(block.row(0, 1)[0], m(1, 0));
  EXPECT_EQ(block.dim, 2);
}
TEST(View, ListsComeFromWhateverHasDataAndSize) {
  const std::vector<Index> v{1, 2, 3};
  const std::array<Index, 2> a{4, 5};
  const Eigen::Matrix<Index, Eigen::Dynamic, 1> e =
      Eigen::Matrix<Index, Eigen::Dynamic, 1>::Constant(4, 6);
  EXPECT_EQ(heed::List<Index>(v).size, 3);
  EXPECT_EQ(heed::List<Index>(a)[1], 5);
  EXPECT_EQ(heed::List<Index>(e)[3], 6);
  EXPECT_EQ(heed::List<Index>().size, 0);
}

// R64: no member asks for more alignment than malloc gives, so containers are safe in any build.
TEST(View, R64PublicTypesNeedNoSpecialAlignment) {
  static_assert(alignof(View<float>) <= 16);
  static_assert(alignof(heed::RowView) <= 16);
  static_assert(alignof(heed::TableView) <= 16);
  static_assert(std::is_trivially_copyable_v<View<float>>);
  static_assert(std::is_trivially_copyable_v<heed::List<float>>);
  std::vector<View<float>> views(3);
  const std::optional<heed::TableView> table(std::in_place);
  EXPECT_TRUE(views[2].empty());
  EXPECT_EQ(table->rows, 0);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/dense.hpp"

#include <unsupported/Eigen/CXX11/Tensor>

#include "block.hpp"
#include "heed/policy/masks.hpp"

namespace heed {
namespace {

using test::refusal;
template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Tensor4 = Eigen::Tensor<T, 4, Eigen::RowMajor>;

Shape shape_of(Index batch, Index heads, Index q_len, Index kv_len) {
  Shape shape;
  shape.batch = batch, shape.heads = heads, shape.q_len = q_len, shape.kv_len = kv_len;
  return shape;
}

TEST(DenseMask, TrueMeansKeepAndReadsRowAndIndex) {
  Matrix<bool> keep(2, 3);
  keep << true, false, true, false, false, true;
  const DenseMask mask{keep};
  EXPECT_TRUE(mask.visible({0, 0, 0, 100}, {0, 50}));
  EXPECT_FALSE(mask.visible({0, 0, 0, 100}, {1, 51}));
  EXPECT_TRUE(mask.visible({4, 3, 1, 101}, {2, 52}));
  EXPECT_FALSE(mask.visible({4, 3, 1, 101}, {1, 51}));
  EXPECT_FALSE((causal & mask).visible({0, 0, 0, 1}, {2, 2}));
}

TEST(DenseMask, ExtentsOfOneAreBroadcast) {
  for (const Index batch : {1, 2}) {
    for (const Index heads : {1, 3}) {
      Tensor4<bool> keep(batch, heads, 4, 5);
      for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = i % 7 < 3;
      const DenseMask mask{keep};
      mask.check(shape_of(2, 3, 4, 5));
      for (Index b = 0; b < 2; ++b) {
        for (Index h = 0; h < 3; ++h) {
          EXPECT_EQ(mask.visible({b, h, 2, 2}, {4, 4}),
                    keep(batch == 1 ? 0 : b, heads == 1 ? 0 : h, 2, 4));
        }
      }
    }
  }
}

TEST(DenseMask, OtherExtentsAreRefused) {
  Tensor4<bool> keep(2, 3, 4, 5);
  const DenseMask mask{keep};
  EXPECT_EQ(refusal([&] { mask.check(shape_of(2, 6, 4, 5)); }),
            "heed::attend: the DenseMask is [2, 3, 4, 5]; expected [2, 6, 4, 5]");
  EXPECT_NE(refusal([&] { mask.check(shape_of(2, 3, 5, 4)); }), "");
  EXPECT_NE(refusal([&] { mask.check(shape_of(1, 3, 4, 5)); }), "");
}

TEST(DenseMask, VisibilityScansTheTile) {
  constexpr Index kLen = 200;
  support::Random random(3);
  Matrix<bool> keep = Matrix<bool>::Constant(kLen, kLen, true);
  keep.block(64, 64, 64, 64).setConstant(false);
  keep(10, 150) = false;
  keep(150, 10) = random.chance(0.5);
  const DenseMask mask{keep};
  const auto positions = test::range(0, kLen);
  for (Index row = 0; row < kLen; row += 50) {
    for (Index first = 0; first < kLen; first += 64) {
      test::Block block(test::range(1000 + row, 50));
      for (Index lane = 0; lane < 50; ++lane) block.rows.row[lane] = row + lane;
      Keys keys = test::keys_at(positions, first);
      keys.position += first;
      keys.count = std::min(kKeys, kLen - first);
      const Index kept = keep.block(row, first, 50, keys.count).count();
      const Visibility expected = kept == 0                 ? Visibility::none
                                  : kept == 50 * keys.count ? Visibility::all
                                                            : Visibility::some;
      EXPECT_EQ(mask.visibility(block.rows, keys), expected) << row << ' ' << first;
    }
  }
}

TEST(Bias, IsAddedByRowAndIndex) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Tensor4<float> bias(1, 4, 21, 100);
  for (Index i = 0; i < bias.size(); ++i) bias.data()[i] = static_cast<float>(i);
  bias(0, 1, 20, 64) = -kInf;
  const Bias policy{bias};
  policy.check(shape_of(3, 4, 21, 100));
  test::Block block(test::range(7, 21), 2);   // heads 1 and 2
  block.rows.batch = 2;
  const auto positions = test::range(7, 36);
  const Keys keys = test::keys_at(positions, 64);
  const test::Numbers before = [](Index lane, Index key) { return double(2 * lane + key) / 2; };
  const auto found =
      test::tile_after(block, keys, before, [&](const Tile& t) { policy.forward(t); });
  EXPECT_EQ(found[20], -kInf);
  for (Index lane = 0; lane < 42; ++lane) {
    for (Index j = 0; j < 36; ++j) {
      const float term = bias(0, 1 + lane / 21, lane % 21, 64 + j);
      const float sum = static_cast<float>(before(lane, j)) + term;
      EXPECT_EQ(found[static_cast<std::size_t>(j * kRows + lane)], sum);
    }
  }
}

TEST(Bias, TakesMatricesAndViews) {
  Matrix<float> whole = Matrix<float>::Random(8, 10);
  const Eigen::Ref<const Matrix<float>, 0, Eigen::OuterStride<>> part = whole.block(1, 2, 3, 4);
  const Bias of_part{part};
  of_part.check(shape_of(2, 2, 3, 4));
  EXPECT_EQ(of_part.bias.row(1, 1, 2)[3], whole(3, 5));
  const Bias of_view{View<const float>(whole.data(), {1, 1, 8, 10})};
  EXPECT_EQ(of_view.bias.row(1, 1, 2)[3], whole(2, 3));
}

}  // namespace
}  // namespace heed

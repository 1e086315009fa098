// SPDX-License-Identifier: Apache-2.0
//
// Eigen's devices and tensors, as a user has them: what attend takes and returns.

#define EIGEN_USE_THREADS

#include <gtest/gtest.h>

#include <future>
#include <heed/kernel/attend.hpp>
#include <heed/policy/masks.hpp>
#include <unsupported/Eigen/CXX11/Tensor>

namespace {

using heed::Index;
using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Tensor random(Index b, Index h, Index t, Index d, float seed) {
  Tensor x(b, h, t, d);
  for (Index i = 0; i < x.size(); ++i) {
    x.data()[i] = std::sin(static_cast<float>(i * 37 % 1009) + seed);
  }
  return x;
}
bool same(const Tensor& a, const Tensor& b) {
  return a.dimensions() == b.dimensions() &&
         std::memcmp(a.data(), b.data(), sizeof(float) * std::size_t(a.size())) == 0;
}

const Tensor q = random(2, 4, 70, 8, 1), k = random(2, 2, 90, 8, 2), v = random(2, 2, 90, 5, 3);

TEST(EigenParallel, R58PoolsOfAnySizeGiveTheSameBits) {
  const Tensor serial = heed::attend(q, k, v, heed::causal);
  for (const int threads : {1, 2, 3, 8, 16}) {
    Eigen::ThreadPool pool(threads);
    const Eigen::ThreadPoolDevice device(&pool, threads);
    for (int repeat = 0; repeat < 5; ++repeat) {
      const Tensor out = heed::attend(device, q, k, v, heed::causal);
      EXPECT_TRUE(same(serial, out)) << threads;
    }
  }
}
TEST(EigenParallel, R58PoolsComeAndGo) {
  const Tensor serial = heed::attend(q, k, v, heed::causal);
  for (int repeat = 0; repeat < 50; ++repeat) {
    Eigen::ThreadPool one(2), two(3);
    const Eigen::ThreadPoolDevice a(&one, 2), b(&two, 3);
    const Tensor x = heed::attend(a, q, k, v, heed::causal);
    const Tensor y = heed::attend(b, q, k, v, heed::causal);
    ASSERT_TRUE(same(serial, x) && same(serial, y));
  }
}
TEST(EigenParallel, R58AnyNumberOfJobsRunsOnce) {
  Eigen::ThreadPool pool(4);
  const Eigen::ThreadPoolDevice device(&pool, 4);
  for (const Index n : {0, 1, 3, 4, 5, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(n));
    heed::run(device, n, [&](Index i) { ++runs[std::size_t(i)]; });
    for (const auto& r : runs) EXPECT_EQ(r, 1);
  }
}
// A call from a task of the same pool must not wait for itself.
TEST(EigenParallel, R59ACallFromInsideThePoolFinishes) {
  const Tensor serial = heed::attend(q, k, v, heed::causal);
  for (const int threads : {1, 2, 8}) {
    Eigen::ThreadPool pool(threads);
    const Eigen::ThreadPoolDevice device(&pool, threads);
    const int calls = 3 * threads;
    std::vector<std::promise<bool>> done(static_cast<std::size_t>(calls));
    for (auto& promise : done) {
      pool.Schedule(
          [&] { promise.set_value(same(serial, heed::attend(device, q, k, v, heed::causal))); });
    }
    for (auto& promise : done) {
      auto result = promise.get_future();
      ASSERT_EQ(result.wait_for(std::chrono::seconds(10)), std::future_status::ready) << threads;
      EXPECT_TRUE(result.get());
    }
  }
}
TEST(EigenParallel, R60ThePoolWorksAfterAnException) {
  Eigen::ThreadPool pool(4);
  const Eigen::ThreadPoolDevice device(&pool, 4);
  const auto bomb = heed::where([](Index query, Index) -> bool {
    if (query == 60) throw std::runtime_error("in a mask");
    return true;
  });
  EXPECT_THROW(heed::attend(device, q, k, v, heed::causal & bomb), std::runtime_error);
  const Tensor out = heed::attend(device, q, k, v, heed::causal);
  EXPECT_TRUE(same(heed::attend(q, k, v, heed::causal), out));
}

// Results are what q is.
TEST(EigenTensors, ReturnsATensorOfTheValuesWidth) {
  const Tensor out = heed::attend(q, k, v, heed::causal);
  EXPECT_EQ(out.dimension(0), 2);
  EXPECT_EQ(out.dimension(1), 4);
  EXPECT_EQ(out.dimension(2), 70);
  EXPECT_EQ(out.dimension(3), 5);
}
TEST(EigenTensors, TensorMapsAreTensors) {
  Tensor copy = q;
  const Eigen::TensorMap<Tensor> map(copy.data(), 2, 4, 70, 8);
  const Eigen::TensorMap<const Tensor> constant(copy.data(), 2, 4, 70, 8);
  const Tensor expected = heed::attend(q, k, v, heed::causal);
  const Tensor a = heed::attend(map, k, v, heed::causal);
  const Tensor b = heed::attend(constant, k, v, heed::causal);
  EXPECT_TRUE(same(expected, a) && same(expected, b));
}
TEST(EigenTensors, TimeBeforeHeadsReturnsTimeBeforeHeads) {
  const Eigen::array<Index, 4> swap{0, 2, 1, 3};
  const Tensor qs = q.shuffle(swap), ks = k.shuffle(swap), vs = v.shuffle(swap);
  const Tensor out = heed::attend(heed::bthd(qs), heed::bthd(ks), heed::bthd(vs), heed::causal);
  EXPECT_EQ(out.dimension(1), 70);
  const Tensor back = out.shuffle(swap);
  EXPECT_TRUE(same(heed::attend(q, k, v, heed::causal), back));
}
TEST(EigenTensors, SplitHeadsReturnsAMatrix) {
  const Tensor q1 = random(1, 4, 9, 8, 1), k1 = random(1, 2, 9, 8, 2), v1 = random(1, 2, 9, 5, 3);
  const auto flatten = [](const Tensor& x) {
    Matrix m(x.dimension(2), x.dimension(1) * x.dimension(3));
    for (Index h = 0; h < x.dimension(1); ++h) {
      for (Index t = 0; t < x.dimension(2); ++t) {
        for (Index d = 0; d < x.dimension(3); ++d) m(t, h * x.dimension(3) + d) = x(0, h, t, d);
      }
    }
    return m;
  };
  const Matrix qm = flatten(q1), km = flatten(k1), vm = flatten(v1);
  const Matrix out = heed::attend(heed::split_heads(qm, 4), heed::split_heads(km, 2),
                                  heed::split_heads(vm, 2), heed::causal);
  const Tensor expected = heed::attend(q1, k1, v1, heed::causal);
  EXPECT_TRUE(out == flatten(expected));
  // Columns of a wider matrix: a fused projection.
  Matrix fused(9, qm.cols() + km.cols() + vm.cols());
  fused << qm, km, vm;
  const Matrix from_fused =
      heed::attend(heed::split_heads(fused.leftCols(32), 4),
                   heed::split_heads(fused.middleCols(32, 16), 2),
                   heed::split_heads(fused.rightCols(10), 2), heed::causal);
  EXPECT_TRUE(out == from_fused);
}
TEST(EigenTensors, SplitHeadsRefusesColumnsThatDoNotDivide) {
  const Matrix m = Matrix::Zero(3, 10);
  EXPECT_THROW(heed::split_heads(m, 3), std::invalid_argument);
  EXPECT_THROW(heed::split_heads(m, 0), std::invalid_argument);
  EXPECT_THROW(heed::split_heads(m, -2), std::invalid_argument);
}

}  // namespace

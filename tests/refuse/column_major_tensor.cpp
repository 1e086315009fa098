// expect: heed: a column-major tensor does not have its dim contiguous
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  Eigen::Tensor<float, 4> other(1, 1, 1, 1);
  heed::attend(q, other, v, heed::causal);
#endif
}

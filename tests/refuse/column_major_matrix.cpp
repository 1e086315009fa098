// expect: heed: a column-major matrix does not have its dim contiguous
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  Eigen::MatrixXf x(4, 4);
  heed::attend(heed::split_heads(x, 1), k, v, heed::causal);
#endif
}

// expect: heed: elements are double; the kernels compute in float, cast to float first
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  Eigen::Tensor<double, 4, Eigen::RowMajor> wide(1, 1, 1, 1);
  heed::attend(q, wide, v, heed::causal);
#endif
}

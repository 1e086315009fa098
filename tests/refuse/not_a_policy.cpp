// expect: heed: this argument is not a policy
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  heed::attend(q, k, v, heed::causal, std::vector<float>{});
#endif
}

// expect: heed: more than one Scale; it replaces 1/sqrt(dim), give one
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  heed::attend(q, k, v, heed::Scale{1}, heed::Scale{2});
#endif
}

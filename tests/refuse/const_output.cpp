// expect: heed: an output is written to, but this tensor is const
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  const Tensor fixed = q;
  heed::attend(heed::Into{.out = fixed}, q, k, v);
#endif
}

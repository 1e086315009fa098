// expect: heed: a View owns no memory to return
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);
  const heed::View<const float> view(q);
  heed::attend(heed::Into{.out = q}, view, k, v);
#ifdef HEED_REFUSE
  heed::attend(view, k, v);
#endif
}

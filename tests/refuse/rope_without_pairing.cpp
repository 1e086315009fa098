// expect: heed: Rope has no default pairing
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);
  heed::attend(q, k, v, heed::Rope{.theta = 1e5f, .pairing = heed::Pairing::halves});
#ifdef HEED_REFUSE
  heed::attend(q, k, v, heed::Rope{.theta = 1e5f});
#endif
}

// expect: heed: more than one placement; give one of Positions, top_left, Lengths
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  heed::attend(q, k, v, heed::top_left, heed::top_left);
#endif
}

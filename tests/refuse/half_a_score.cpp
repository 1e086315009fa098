// expect: heed: half a score; backward and end need a forward
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  struct Nothing {
    void backward(const heed::Tile&, heed::Adjoint&) const {}
  };
  heed::attend(q, k, v, Nothing{});
#endif
}

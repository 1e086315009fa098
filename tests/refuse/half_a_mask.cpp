// expect: heed: half a mask; a mask has visibility
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  struct Even {
    bool visible(heed::Query, heed::Key key) const { return key.position % 2 == 0; }
  };
  heed::attend(q, k, v, Even{});
#endif
}

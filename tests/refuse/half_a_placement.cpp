// expect: heed: half a placement; a placement has query_position
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  struct Shifted {
    heed::Index query_position(const heed::Shape&, heed::Index, heed::Index row) const {
      return row + 1;
    }
  };
  heed::attend(q, k, v, Shifted{});
#endif
}

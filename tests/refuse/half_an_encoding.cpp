// expect: heed: half an encoding; an encoding has begin
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);

#ifdef HEED_REFUSE
  struct Flip {
    int begin(heed::List<heed::Index>, heed::Index) const { return 0; }
    void encode(heed::Vector x, heed::Index, int) const { x = -x; }
  };
  heed::attend(q, k, v, Flip{});
#endif
}

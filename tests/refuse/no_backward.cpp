// expect: heed: this score has no backward
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);
  struct Halve {
    void forward(const heed::Tile& tile) const { tile.logits.column(0) *= 0.5f; }
  };
  heed::attend(q, k, v, Halve{});
  auto saved = heed::attend_saving(q, k, v, Halve{});
#ifdef HEED_REFUSE
  heed::attend_backward(q, k, v, saved, q, Halve{});
#endif
}

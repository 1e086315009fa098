// expect: so its mask must be causal; write causal & yours
#include <heed/heed.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

void use(Tensor& q, Tensor& k, Tensor& v) {
  heed::attend(q, k, v, heed::causal);
  const heed::TableView table(nullptr, 1, 1, 1);
  heed::attend(q, k, v, heed::causal & heed::Window{4}, heed::Cope{table});
#ifdef HEED_REFUSE
  heed::attend(q, k, v, heed::Window{4}, heed::Cope{table});
#endif
}

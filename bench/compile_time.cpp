// SPDX-License-Identifier: Apache-2.0
//
// A user's file, for bench/run to compile: heed on Eigen tensors, with three policies.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Tensor layer(const Tensor& q, const Tensor& k, const Tensor& v, const Matrix& table,
             const std::vector<float>& scales);

Tensor layer(const Tensor& q, const Tensor& k, const Tensor& v, const Matrix& table,
             const std::vector<float>& scales) {
  return heed::attend(q, k, v, heed::causal, heed::HeadScale{scales}, heed::Cope{table});
}

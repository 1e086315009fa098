// SPDX-License-Identifier: Apache-2.0
//
// The elements of a tensor as floats, for all types of lm::Type:
//   F32, F16, BF16   as they are
//   Q8_0             32 elements per block: x = d q, d in F16, q signed bytes
//   Q4_1             32 elements per block: x = d q + m, d and m in F16, q in 0..15; the low halves
//                    of the 16 bytes are elements 0..15, the high halves 16..31

#pragma once

#include <Eigen/Core>

#include <span>

#include "gguf.hpp"

namespace lm {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Row `row` (0 .. rows() - 1) into `out`, which has columns() elements. Costs one pass over it.
void dequantize_row(const Tensor& tensor, Index row, std::span<float> out);

// All of it: [rows(), columns()].
Matrix dequantize(const Tensor& tensor);

}  // namespace lm

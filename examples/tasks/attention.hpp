// SPDX-License-Identifier: Apache-2.0
//
// heed as the model calls it: queries, keys and values are the thirds of one matrix
// [batch * time, 3 * width], heads are slices of columns, and nothing is copied.

#pragma once

#include "encoding.hpp"

namespace tasks {

struct AttentionShape {
  Index batch = 0, time = 0, heads = 0, width = 0;   // width of all heads together
};

// What a look into an attention asks for; empty views are not wanted.
struct Look {
  heed::RowView entropy{};    // [batch, heads, time], nats
  heed::Weights weights{};    // [batch, heads, rows, time]
};

// out [batch * time, width], lse [batch * heads * time].
void attention(const AttentionShape& shape, Pe pe, const Tables& tables, const Matrix& qkv,
               Matrix& out, std::vector<float>& lse, const Look& look = {});

// dqkv is written; dvectors and dscales, the gradients of the tables, are added to where the
// encoding has them.
void attention_adjoint(const AttentionShape& shape, Pe pe, const Tables& tables, const Matrix& qkv,
                       const Matrix& out, const std::vector<float>& lse, const Matrix& dout,
                       Matrix& dqkv, Eigen::Map<Matrix> dvectors, Eigen::Map<Matrix> dscales);

}  // namespace tasks

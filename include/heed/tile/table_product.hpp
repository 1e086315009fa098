// SPDX-License-Identifier: Apache-2.0
//
// The queries of a block against a table of vectors, the shape that CoPE and relative encodings
// share: z[n][lane] = packed query of the lane . table row n. The result still has the folded
// scale and factors of the packed queries; multiply by Rows::unfold to take them out.

#pragma once

#include "../core/buffer.hpp"
#include "../core/view.hpp"
#include "block.hpp"

namespace heed::inline HEED_ABI {

// z: [count][kRows], for table rows [0, count).
inline void product_with_table(const TableView& table, const Rows& rows, float* z, Index count) {
  const simd::ForwardTable& simd = simd::forward();
  const auto product = [&](Index head, float* to) {
    const float* vectors[kKeys];
    for (Index n = 0; n < count; n += kKeys) {
      const Index some = std::min(kKeys, count - n);
      for (Index i = 0; i < some; ++i) vectors[i] = table.row(head, n + i);
      simd.product(to + n * kRows, rows.packed, rows.dim, vectors, some, simd::kReachAll);
    }
  };
  product(rows.head[0], z);
  if (table.tables == 1 || rows.one_head) return;
  // Stacked heads with a table each: every table against all lanes, each lane keeps its own.
  Buffer<float> other(count * kRows);
  for (Index lane = 1; lane < rows.count; ++lane) {
    if (rows.head[lane] == rows.head[0]) continue;
    if (rows.head[lane] != rows.head[lane - 1]) product(rows.head[lane], other.data());
    for (Index n = 0; n < count; ++n) z[n * kRows + lane] = other[n * kRows + lane];
  }
}

}  // namespace heed::inline HEED_ABI

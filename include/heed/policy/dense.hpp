// SPDX-License-Identifier: Apache-2.0
//
// Masks and biases that are written out, one element per pair: [batch | 1, heads | 1, q_len,
// kv_len], read by row and key index, never by position. An extent of 1 is shared by all batch
// entries or all query heads. Nothing is copied: the array must outlive the policy.
//
//   DenseMask{keep}   bool, true = keep. Not "true = ignore", as some libraries have it.
//   Bias{bias}        float, added to the scaled logits; may hold -inf.

#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "concepts.hpp"

namespace heed::inline HEED_ABI {

namespace detail {

// A row-major rank-4 tensor, a row-major matrix [q_len, kv_len] or a View, with extents of 1 in
// batch and heads broadcast by a stride of 0.
template <class T, class Given>
View<const T> dense_view(const Given& source) {
  View<const T> view;
  if constexpr (ViewLike<Given>) {
    static_assert(std::is_convertible_v<decltype(source.data), const T*>,
                  "heed: a DenseMask holds bool (true = keep), a Bias holds float");
    view = View<const T>(source.data, source.extent, source.stride);
  } else {
    static_assert(requires { source.data(); },
                  "heed: a DenseMask or Bias is a tensor or matrix in memory; give an expression "
                  "a name (or .eval()) first");
    static_assert(std::is_convertible_v<decltype(source.data()), const T*>,
                  "heed: a DenseMask holds bool (true = keep), a Bias holds float");
    if constexpr (TensorLike<Given>) {
      static_assert(Given::NumDimensions == 4 && int(Given::Layout) == int(Eigen::RowMajor),
                    "heed: a DenseMask or Bias is a row-major rank-4 tensor [batch or 1, heads or "
                    "1, q_len, kv_len] or a row-major matrix [q_len, kv_len]");
      view = View<const T>(source.data(), {source.dimension(0), source.dimension(1),
                                           source.dimension(2), source.dimension(3)});
    } else {
      static_assert(MatrixLike<Given> && bool(Given::IsRowMajor) &&
                        int(Given::InnerStrideAtCompileTime) == 1,
                    "heed: a DenseMask or Bias is a row-major rank-4 tensor [batch or 1, heads or "
                    "1, q_len, kv_len] or a row-major matrix [q_len, kv_len]");
      view = View<const T>(source.data(), {1, 1, source.rows(), source.cols()},
                           {0, 0, source.outerStride()});
    }
  }
  if (view.extent[0] == 1) view.stride[0] = 0;
  if (view.extent[1] == 1) view.stride[1] = 0;
  return view;
}

inline void check_dense(const Shape& shape, const char* name, const std::array<Index, 4>& found) {
  std::array<Index, 4> expected{shape.batch, shape.heads, shape.q_len, shape.kv_len};
  if (found[0] == 1) expected[0] = 1;
  if (found[1] == 1) expected[1] = 1;
  contract::same_shape(shape.function, name, found, expected);
}

}  // namespace detail

struct DenseMask {
  static_assert(sizeof(bool) == 1);
  static constexpr bool causal = false;
  View<const bool> keep;

  template <class Given>
    requires(!std::same_as<std::remove_cvref_t<Given>, DenseMask>)
  explicit DenseMask(const Given& source) : keep(detail::dense_view<bool>(source)) {}

  void check(const Shape& shape) const {
    detail::check_dense(shape, "the DenseMask", keep.extent);
  }
  bool visible(Query query, Key key) const {
    return keep.row(query.batch, query.head, query.row)[key.index];
  }
  // Reads the tile's part of the mask.
  Visibility visibility(const Rows& rows, const Keys& keys) const {
    bool any = false, all = true;
    for (Index lane = 0; lane < rows.count && (all || !any); ++lane) {
      const bool* row = keep.row(rows.batch, rows.head[lane], rows.row[lane]) + keys.first;
      const auto count = static_cast<std::size_t>(keys.count);
      any = any || std::memchr(row, 1, count) != nullptr;
      all = all && std::memchr(row, 0, count) == nullptr;
    }
    if (all) return Visibility::all;
    return any ? Visibility::some : Visibility::none;
  }
};

// d loss / d bias: the bias' own extents, summed over the batch entries and heads that share it.
// Holds the parts that were touched, each 64 rows of one slice, so that a job's share stays small.
class BiasGradient {
 public:
  BiasGradient() = default;
  explicit BiasGradient(const std::array<Index, 4>& extent)
      : extent_(extent), parts_(std::size_t(extent[0] * extent[1] * per_slice())) {}

  const std::array<Index, 4>& extent() const { return extent_; }   // of the Bias as it was given
  float operator()(Index batch, Index head, Index row, Index key) const {
    const Part& part = parts_[number(batch, head, row)];
    return part.empty() ? 0.0f : part[std::size_t(row % kRows * extent_[3] + key)];
  }
  // All of it, packed, in the order of extent().
  std::vector<float> values() const {
    std::vector<float> all;
    all.reserve(std::size_t(extent_[0] * extent_[1] * extent_[2] * extent_[3]));
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      all.insert(all.end(), parts_[n].begin(), parts_[n].end());
      if (parts_[n].empty()) all.resize(all.size() + size(Index(n) % per_slice()));
    }
    return all;
  }

  // To be added to: [kv_len].
  float* row(Index batch, Index head, Index row) {
    Part& part = parts_[number(batch, head, row)];
    if (part.empty()) part.resize(size(row / kRows));
    return part.data() + row % kRows * extent_[3];
  }
  BiasGradient& operator+=(const BiasGradient& other) {
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      const Part& from = other.parts_[n];
      if (parts_[n].empty()) {
        parts_[n] = from;
        continue;
      }
      for (std::size_t i = 0; i < from.size(); ++i) parts_[n][i] += from[i];
    }
    return *this;
  }

 private:
  using Part = std::vector<float>;   // [kRows or what is left, kv_len]

  Index per_slice() const { return (extent_[2] + kRows - 1) / kRows; }
  std::size_t size(Index part) const {
    return std::size_t(std::min(kRows, extent_[2] - part * kRows) * extent_[3]);
  }
  std::size_t number(Index batch, Index head, Index row) const {
    const Index slice =
        (extent_[0] == 1 ? 0 : batch) * extent_[1] + (extent_[1] == 1 ? 0 : head);
    return std::size_t(slice * per_slice() + row / kRows);
  }

  std::array<Index, 4> extent_{0, 0, 0, 0};
  std::vector<Part> parts_;
};

struct Bias {
  View<const float> bias;

  template <class Given>
    requires(!std::same_as<std::remove_cvref_t<Given>, Bias>)
  explicit Bias(const Given& source) : bias(detail::dense_view<float>(source)) {}

  void check(const Shape& shape) const { detail::check_dense(shape, "the Bias", bias.extent); }

  // Row by row, because the bias is contiguous along keys. Only what the product has written.
  void forward(const Tile& tile) const {
    const Rows& rows = tile.rows;
    float* logits = tile.logits.data;
    for (Index from = 0; from < tile.keys.count; from += simd::kGroup) {
      const Index chunk = from / simd::kGroup;
      const Index to = std::min(from + simd::kGroup, tile.keys.count);
      const Index end = std::min(rows.count, tile.reach.last[chunk] * simd::kGroup);
      for (Index lane = tile.reach.first[chunk] * simd::kGroup; lane < end; ++lane) {
        const float* row = bias.row(rows.batch, rows.head[lane], rows.row[lane]) + tile.keys.first;
        for (Index i = from; i < to; ++i) logits[i * kRows + lane] += row[i];
      }
    }
  }

  BiasGradient zero(const Shape&) const { return BiasGradient(bias.extent); }
  void backward(const Tile& tile, const Adjoint& adjoint, BiasGradient& gradient) const {
    const Rows& rows = tile.rows;
    for (Index lane = 0; lane < rows.count; ++lane) {
      float* const to =
          gradient.row(rows.batch, rows.head[lane], rows.row[lane]) + tile.keys.first;
      for (Index i = 0; i < tile.keys.count; ++i) to[i] += adjoint.logits.data[i * kRows + lane];
    }
  }
};

}  // namespace heed::inline HEED_ABI

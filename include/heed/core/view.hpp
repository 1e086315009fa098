// SPDX-License-Identifier: Apache-2.0
//
// What the kernels see: a pointer, four extents {batch, heads, time, dim}, and signed strides.
// `dim` is contiguous; nothing is ever copied silently.
//
//   rank-4 row-major Eigen::Tensor / TensorMap [batch, heads, time, dim]     as it is
//   the same in the order [batch, time, heads, dim]                          bthd(tensor)
//   row-major Eigen::Matrix / Map / Ref [time, heads * dim]                  split_heads(m, heads)
//
// Tensors are recognised by their shape, so Eigen's (unsupported) Tensor header is not included.

#pragma once

#include <concepts>
#include <type_traits>

#include "contract.hpp"

namespace heed {
inline namespace HEED_ABI {
namespace detail {

template <class>
inline constexpr bool kNever = false;

template <class T>
concept TensorLike = requires(T& t) {
  { t.data() };
  { t.dimension(0) } -> std::convertible_to<Index>;
  { std::remove_cvref_t<T>::NumDimensions } -> std::convertible_to<int>;
  { std::remove_cvref_t<T>::Layout } -> std::convertible_to<int>;
};

template <class T>
concept MatrixLike = std::derived_from<std::remove_cvref_t<T>,
                                       Eigen::DenseBase<std::remove_cvref_t<T>>>;

// A View of whatever element type.
template <class T>
concept ViewLike = requires(const T& v) {
  { *v.data };
  { v.extent[3] };
  { v.stride[2] };
};

// The sentences that a wrong element type or order gets.
template <class Element, class Wanted>
constexpr void check_element() {
  static_assert(!std::same_as<std::remove_const_t<Element>, double>,
                "heed: elements are double; the kernels compute in float, cast to float first");
  static_assert(std::same_as<std::remove_const_t<Element>, std::remove_const_t<Wanted>>,
                "heed: wrong element type; q, k, v and outputs are float");
  static_assert(std::is_const_v<Wanted> || !std::is_const_v<Element>,
                "heed: an output is written to, but this tensor is const");
}

template <class T>
constexpr void check_tensor() {
  static_assert(int(std::remove_cvref_t<T>::Layout) == int(Eigen::RowMajor),
                "heed: a column-major tensor does not have its dim contiguous; use "
                "Eigen::Tensor<float, 4, Eigen::RowMajor> [batch, heads, time, dim]");
}

template <class M>
constexpr void check_matrix() {
  static_assert(bool(std::remove_cvref_t<M>::IsRowMajor),
                "heed: a column-major matrix does not have its dim contiguous; use "
                "Eigen::Matrix<float, Dynamic, Dynamic, Eigen::RowMajor> [time, heads * dim]");
  static_assert(int(std::remove_cvref_t<M>::InnerStrideAtCompileTime) == 1,
                "heed: the elements of a row are not contiguous; use an inner stride of 1");
}

template <class Pointer>
using Pointee = std::remove_pointer_t<Pointer>;

}  // namespace detail
}  // namespace HEED_ABI

inline namespace HEED_DATA_ABI {

// A strided view of [batch, heads, time, dim]; dim has stride 1. Strides may be zero or negative.
template <class T>
struct View {
  T* data = nullptr;
  std::array<Index, 4> extent{0, 0, 0, 0};  // batch, heads, time, dim
  std::array<Index, 3> stride{0, 0, 0};     // of batch, heads, time, in elements

  constexpr View() = default;
  constexpr View(T* pointer, std::array<Index, 4> extents, std::array<Index, 3> strides)
      : data(pointer), extent(extents), stride(strides) {}
  // Packed, row-major.
  constexpr View(T* pointer, std::array<Index, 4> e)
      : View(pointer, e, {e[1] * e[2] * e[3], e[2] * e[3], e[3]}) {}
  // From a rank-4 row-major tensor, bthd(...) or split_heads(...); View<float> becomes
  // View<const float>.
  template <class Source>
    requires(!std::same_as<std::remove_cvref_t<Source>, View<T>>)
  constexpr View(Source&& source) {
    using S = std::remove_cvref_t<Source>;
    if constexpr (detail::ViewLike<S>) {
      detail::check_element<std::remove_pointer_t<decltype(source.data)>, T>();
      *this = View(source.data, source.extent, source.stride);
    } else if constexpr (requires { source.view.extent; }) {   // bthd(...), split_heads(...)
      *this = View(source.view);
    } else if constexpr (detail::TensorLike<Source>) {
      detail::check_element<detail::Pointee<decltype(source.data())>, T>();
      detail::check_tensor<Source>();
      static_assert(S::NumDimensions == 4,
                    "heed: expected a rank-4 tensor [batch, heads, time, dim]");
      if constexpr (S::NumDimensions == 4) {
        *this = View(source.data(), {source.dimension(0), source.dimension(1), source.dimension(2),
                                     source.dimension(3)});
      }
    } else if constexpr (detail::MatrixLike<Source>) {
      static_assert(detail::kNever<Source>,
                    "heed: a matrix does not say how many heads it holds; use "
                    "heed::split_heads(matrix, heads)");
    } else {
      static_assert(detail::kNever<Source>,
                    "heed: expected a row-major rank-4 Eigen::Tensor or TensorMap, bthd(tensor), "
                    "split_heads(matrix, heads) or a heed::View");
    }
  }

  constexpr Index batch() const { return extent[0]; }
  constexpr Index heads() const { return extent[1]; }
  constexpr Index time() const { return extent[2]; }
  constexpr Index dim() const { return extent[3]; }
  constexpr T* row(Index b, Index h, Index t) const {
    return data + b * stride[0] + h * stride[1] + t * stride[2];
  }
  constexpr bool empty() const {
    return extent[0] == 0 || extent[1] == 0 || extent[2] == 0 || extent[3] == 0;
  }
};

// One number per query row: [batch, heads, time], from a rank-3 row-major tensor or a plain pointer.
struct RowView {
  float* data = nullptr;
  std::array<Index, 3> extent{0, 0, 0};
  std::array<Index, 3> stride{0, 0, 0};

  constexpr RowView() = default;
  constexpr RowView(float* pointer, std::array<Index, 3> e)
      : data(pointer), extent(e), stride{e[1] * e[2], e[2], 1} {}
  template <class Tensor>
    requires(std::remove_cvref_t<Tensor>::NumDimensions == 3)
  RowView(Tensor&& t) : RowView(t.data(), {t.dimension(0), t.dimension(1), t.dimension(2)}) {
    detail::check_tensor<Tensor>();
  }
  float& operator()(Index b, Index h, Index t) const {
    return data[b * stride[0] + h * stride[1] + t * stride[2]];
  }
};

// Tables of vectors: [tables, rows, dim], one table shared by all heads or one per query head.
// From a row-major matrix [rows, dim] or a rank-3 row-major tensor [heads, rows, dim].
struct TableView {
  const float* data = nullptr;
  Index tables = 0, rows = 0, dim = 0;
  Index table_stride = 0, row_stride = 0;

  constexpr TableView() = default;
  constexpr TableView(const float* pointer, Index count, Index row_count, Index width)
      : data(pointer), tables(count), rows(row_count), dim(width),
        table_stride(row_count * width), row_stride(width) {}
  template <class Source>
    requires(!std::same_as<std::remove_cvref_t<Source>, TableView>)
  TableView(Source&& source) {
    detail::check_element<detail::Pointee<decltype(source.data())>, const float>();
    if constexpr (detail::TensorLike<Source>) {
      detail::check_tensor<Source>();
      static_assert(std::remove_cvref_t<Source>::NumDimensions == 3,
                    "heed: a table per head is a rank-3 tensor [heads, rows, dim]");
      *this = TableView(source.data(), source.dimension(0), source.dimension(1),
                        source.dimension(2));
    } else {
      static_assert(detail::MatrixLike<Source>,
                    "heed: a table is a row-major matrix [rows, dim] or a rank-3 tensor [heads, "
                    "rows, dim]");
      detail::check_matrix<Source>();
      *this = TableView(source.data(), 1, source.rows(), source.cols());
      row_stride = source.outerStride();
    }
  }
  constexpr const float* row(Index head, Index n) const {
    return data + (tables == 1 ? 0 : head) * table_stride + n * row_stride;
  }
};

// A list of plain values: std::vector, std::array, std::span, an Eigen vector or array.
template <class T>
struct List {
  const T* data = nullptr;
  Index size = 0;

  constexpr List() = default;
  constexpr List(const T* pointer, Index count) : data(pointer), size(count) {}
  template <class Source>
    requires requires(const Source& s) {
      { s.data() } -> std::convertible_to<const T*>;
      s.size();
    }
  constexpr List(const Source& source)
      : data(source.data()), size(static_cast<Index>(source.size())) {}
  constexpr const T& operator[](Index i) const { return data[i]; }
};

}  // namespace HEED_DATA_ABI

inline namespace HEED_ABI {
// A tensor or matrix in another order, and the owning type that attend returns for it.
enum class Order { bhtd, bthd, split };
template <class T, class Plain, Order order>
struct Ordered {
  View<T> view;
};

// [batch, time, heads, dim], the order of most projection layers.
template <detail::TensorLike Tensor>
auto bthd(Tensor&& t) {
  detail::check_tensor<Tensor>();
  static_assert(std::remove_cvref_t<Tensor>::NumDimensions == 4,
                "heed: bthd takes a rank-4 tensor [batch, time, heads, dim]");
  using T = detail::Pointee<decltype(t.data())>;
  const Index b = t.dimension(0), s = t.dimension(1), h = t.dimension(2), d = t.dimension(3);
  return Ordered<T, std::remove_cvref_t<Tensor>, Order::bthd>{
      View<T>(t.data(), {b, h, s, d}, {s * h * d, d, h * d})};
}

// [time, heads * dim], head h in columns h*dim to (h+1)*dim. Refuses columns that do not divide.
template <detail::MatrixLike Matrix>
auto split_heads(Matrix&& m, Index heads) {
  detail::check_matrix<Matrix>();
  using T = detail::Pointee<decltype(m.data())>;
  if (heads < 0 || (heads == 0 ? m.cols() != 0 : m.cols() % heads != 0)) {
    contract::refuse("split_heads", "heads is " + contract::text(heads) + " for a matrix of " +
                                        contract::text(m.cols()) + " columns",
                     "a positive number that divides the columns");
  }
  const Index d = heads == 0 ? 0 : m.cols() / heads;
  return Ordered<T, std::remove_cvref_t<Matrix>, Order::split>{
      View<T>(m.data(), {1, heads, m.rows(), d}, {0, d, m.outerStride()})};
}

}  // namespace HEED_ABI

}  // namespace heed

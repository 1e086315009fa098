// SPDX-License-Identifier: Apache-2.0
//
// The same numbers in other memory orders: what stands between the elements is NaN.

#pragma once

#include "world.hpp"

namespace support {

enum class Layout { bhtd, bthd, tbhd, htbd, padded, reversed };
inline constexpr Layout kLayouts[] = {Layout::bhtd, Layout::bthd,   Layout::tbhd,
                                      Layout::htbd, Layout::padded, Layout::reversed};
inline const char* name(Layout layout) {
  constexpr const char* kNames[] = {"bhtd", "bthd", "tbhd", "htbd", "padded", "reversed"};
  return kNames[static_cast<int>(layout)];
}

// Owns a strided copy of a packed [batch, heads, time, dim], one element off any alignment.
class Strided {
 public:
  Strided(const std::vector<float>& packed, std::array<Index, 4> e, Layout layout) {
    const auto [b, h, t, d] = e;
    std::array<Index, 3> s{};
    switch (layout) {
      case Layout::bhtd: s = {h * t * d, t * d, d}; break;
      case Layout::bthd: s = {t * h * d, d, h * d}; break;
      case Layout::tbhd: s = {h * d, d, b * h * d}; break;
      case Layout::htbd: s = {d, t * b * d, b * d}; break;
      case Layout::padded: s = {h * (t * (d + 3) + 5) + 7, t * (d + 3) + 5, d + 3}; break;
      case Layout::reversed: s = {-h * t * d, -t * d, -d}; break;
    }
    Index low = 0, high = d;
    for (std::size_t i = 0; i < 3; ++i) {
      const Index reach = std::max<Index>(e[i] - 1, 0) * s[i];
      (reach < 0 ? low : high) += reach;
    }
    memory_.assign(size(high - low + 1), std::numeric_limits<float>::quiet_NaN());
    view_ = {memory_.data() + 1 - low, e, s};
    std::size_t next = 0;
    for (Index i = 0; i < b; ++i) {
      for (Index j = 0; j < h; ++j) {
        for (Index k = 0; k < t; ++k) {
          for (Index l = 0; l < d; ++l) view_.row(i, j, k)[l] = packed[next++];
        }
      }
    }
  }
  Strided(const Strided&) = delete;
  const heed::View<float>& view() const { return view_; }
  std::vector<float> packed() const {
    std::vector<float> result;
    for (Index i = 0; i < view_.batch(); ++i) {
      for (Index j = 0; j < view_.heads(); ++j) {
        for (Index k = 0; k < view_.time(); ++k) {
          const float* const row = view_.row(i, j, k);
          result.insert(result.end(), row, row + view_.dim());
        }
      }
    }
    return result;
  }

 private:
  std::vector<float> memory_;
  heed::View<float> view_;
};

}  // namespace support

// SPDX-License-Identifier: Apache-2.0
//
// Scratch memory, aligned to a cache line. Never Eigen's allocator: its alignment follows the
// including file's flags, and a buffer may be freed by a differently compiled file.

#pragma once

#include <new>
#include <utility>

#include "types.hpp"

namespace heed::inline HEED_ABI {

template <class T>
class Buffer {
 public:
  static constexpr std::align_val_t kAlignment{64};

  Buffer() = default;
  // Uninitialised; throws std::bad_alloc.
  explicit Buffer(Index count)
      : data_(static_cast<T*>(::operator new(sizeof(T) * static_cast<std::size_t>(count) + 1,
                                             kAlignment))),
        size_(count) {}
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { ::operator delete(data_, kAlignment); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  Index size() const { return size_; }
  T& operator[](Index i) { return data_[i]; }
  const T& operator[](Index i) const { return data_[i]; }

 private:
  static_assert(std::is_trivially_copyable_v<T>, "scratch holds plain numbers");
  T* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace heed::inline HEED_ABI

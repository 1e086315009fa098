// SPDX-License-Identifier: Apache-2.0
//
// Scratch memory, aligned to a cache line. Never Eigen's allocator: its alignment follows the
// including file's flags, and a buffer may be freed by a differently compiled file.
//
// A Recycler lends memory again: while its scope is open, buffers of this thread take blocks from
// it and give theirs to it when they die. So a step in a loop allocates only the first time.

#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <new>
#include <utility>

#include "types.hpp"

namespace heed::inline HEED_ABI {

inline constexpr std::align_val_t kAlignment{64};

// Blocks may outlive the scope they were lent in: each is an allocation of its own.
class Recycler {
 public:
  Recycler() = default;
  Recycler(const Recycler&) = delete;
  Recycler& operator=(const Recycler&) = delete;
  ~Recycler() {
    for (Index i = 0; i < count_; ++i) ::operator delete(blocks_[i].data, kAlignment);
  }

  class Scope {
   public:
    explicit Scope(Recycler& recycler) : before_(std::exchange(current_, &recycler)) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { current_ = before_; }

   private:
    Recycler* before_;
  };

  // At least `bytes`; `bytes` becomes what the block has. Throws std::bad_alloc.
  static void* take(std::size_t& bytes) {
    if (current_ != nullptr) {
      if (void* const data = current_->find(bytes)) return data;
      bytes = std::bit_ceil(bytes);   // sizes that grow meet again
    }
    return ::operator new(bytes, kAlignment);
  }
  static void give(void* data, std::size_t bytes) {
    if (data == nullptr) return;
    if (current_ == nullptr || current_->count_ == kBlocks) {
      ::operator delete(data, kAlignment);
    } else {
      current_->blocks_[current_->count_++] = {data, bytes};
    }
  }

 private:
  struct Block {
    void* data;
    std::size_t bytes;
  };
  static constexpr Index kBlocks = 64;

  // The smallest block that is large enough.
  void* find(std::size_t& bytes) {
    Index best = -1;
    for (Index i = 0; i < count_; ++i) {
      if (blocks_[i].bytes < bytes) continue;
      if (best < 0 || blocks_[i].bytes < blocks_[best].bytes) best = i;
    }
    if (best < 0) return nullptr;
    const Block found = std::exchange(blocks_[best], blocks_[--count_]);
    bytes = found.bytes;
    return found.data;
  }

  Block blocks_[kBlocks];
  Index count_ = 0;
  static constinit inline thread_local Recycler* current_ = nullptr;
};

template <class T>
class Buffer {
 public:
  Buffer() = default;
  // Uninitialised; throws std::bad_alloc.
  explicit Buffer(Index count)
      : bytes_(sizeof(T) * static_cast<std::size_t>(count) + 1),
        data_(static_cast<T*>(Recycler::take(bytes_))),
        size_(count) {}
  Buffer(Buffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, 0)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { Recycler::give(data_, bytes_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  Index size() const { return size_; }
  T& operator[](Index i) { return data_[i]; }
  const T& operator[](Index i) const { return data_[i]; }

 private:
  static_assert(std::is_trivially_copyable_v<T>, "scratch holds plain numbers");
  std::size_t bytes_ = 0;
  T* data_ = nullptr;
  Index size_ = 0;
};

// At most `room` objects in a buffer.
template <class T>
class Objects {
 public:
  explicit Objects(Index room) : memory_(room * Index(sizeof(T))) {
    static_assert(alignof(T) <= std::size_t(kAlignment));
  }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
  ~Objects() { std::destroy_n(data(), size_); }

  void push(T&& object) {
    ::new (static_cast<void*>(data() + size_)) T(std::move(object));
    ++size_;
  }
  const T& operator[](Index i) const { return data()[i]; }

 private:
  T* data() const { return std::launder(reinterpret_cast<T*>(const_cast<std::byte*>(memory_.data()))); }

  Buffer<std::byte> memory_;
  Index size_ = 0;
};

}  // namespace heed::inline HEED_ABI

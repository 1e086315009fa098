// SPDX-License-Identifier: Apache-2.0
//
// Counts what is allocated: the global operator new and delete, replaced. To be included by one
// file of a program. Eigen's tensors use malloc and are not counted; the library's scratch is.

#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace heed_bench {

class Memory {
 public:
  static void* take(std::size_t size, std::size_t alignment) {
    void* const p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (p == nullptr) throw std::bad_alloc();
    const std::size_t now = live_ += malloc_usable_size(p);
    for (std::size_t peak = peak_; now > peak && !peak_.compare_exchange_weak(peak, now);) {
    }
    return p;
  }
  static void give(void* p) {
    live_ -= malloc_usable_size(p);
    std::free(p);
  }
  // The most that f() held at a time, in bytes, beyond what was there before.
  template <class F>
  static std::size_t peak_of(F&& f) {
    const std::size_t before = live_;
    peak_ = before;
    f();
    return peak_ - before;
  }

 private:
  static inline std::atomic<std::size_t> live_ = 0, peak_ = 0;
};

}  // namespace heed_bench

void* operator new(std::size_t size) {
  return heed_bench::Memory::take(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return heed_bench::Memory::take(size, std::size_t(alignment));
}
void operator delete(void* p) noexcept { heed_bench::Memory::give(p); }
void operator delete(void* p, std::size_t) noexcept { heed_bench::Memory::give(p); }
void operator delete(void* p, std::align_val_t) noexcept { heed_bench::Memory::give(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  heed_bench::Memory::give(p);
}

// SPDX-License-Identifier: Apache-2.0
//
// Counts what a test takes from operator new: include it in one file of a program. Each block
// carries its size in front.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace lm_test {

struct Allocations {
  std::size_t now = 0, peak = 0, blocks = 0;
};
inline thread_local Allocations allocations;

// From here on; what is alive already does not count.
inline void count_allocations() { allocations = {}; }

inline constexpr std::size_t kFront = alignof(std::max_align_t);

inline void* counted(std::size_t size) {
  auto* block = static_cast<std::byte*>(std::malloc(size + kFront));
  if (!block) throw std::bad_alloc();
  *reinterpret_cast<std::size_t*>(block) = size;
  ++allocations.blocks;
  allocations.now += size;
  allocations.peak = std::max(allocations.peak, allocations.now);
  return block + kFront;
}
inline void uncounted(void* p) {
  if (!p) return;
  auto* block = static_cast<std::byte*>(p) - kFront;
  allocations.now -= std::min(allocations.now, *reinterpret_cast<std::size_t*>(block));
  std::free(block);
}

}  // namespace lm_test

void* operator new(std::size_t size) { return lm_test::counted(size); }
void* operator new[](std::size_t size) { return lm_test::counted(size); }
void operator delete(void* p) noexcept { lm_test::uncounted(p); }
void operator delete[](void* p) noexcept { lm_test::uncounted(p); }
void operator delete(void* p, std::size_t) noexcept { lm_test::uncounted(p); }
void operator delete[](void* p, std::size_t) noexcept { lm_test::uncounted(p); }

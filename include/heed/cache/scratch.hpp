// SPDX-License-Identifier: Apache-2.0
//
// What a cache keeps beside its state so that a step allocates nothing: memory to lend to the
// calling thread and to jobs, and arrays that only grow. A copy of a cache starts without.

#pragma once

#include <mutex>
#include <vector>

#include "../core/buffer.hpp"

namespace heed::inline HEED_ABI::detail {

// An array whose contents matter only within a step.
template <class T>
class Growing {
 public:
  T* get(Index count) {
    if (buffer_.size() < count) buffer_ = Buffer<T>(Index(std::bit_ceil(std::size_t(count))));
    return buffer_.data();
  }

 private:
  Buffer<T> buffer_;
};

struct CacheScratch {
  Recycler caller;
  Growing<Index> counts, positions, left;
  Growing<float> results;         // per (entry, head, part): see step.hpp
  Growing<float> kept, tops, shares;

  // Memory for one job, on whatever thread it runs; as many as ever ran at once.
  class Loan {
   public:
    explicit Loan(CacheScratch& from) : from_(from), recycler_(from.lend()), scope_(*recycler_) {}
    ~Loan() {
      const std::lock_guard lock(from_.mutex_);
      from_.idle_.push_back(std::move(recycler_));   // there is room: it came from here
    }

   private:
    CacheScratch& from_;
    std::unique_ptr<Recycler> recycler_;
    Recycler::Scope scope_;
  };

 private:
  std::unique_ptr<Recycler> lend() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      idle_.reserve(++made_);
      return std::make_unique<Recycler>();
    }
    auto last = std::move(idle_.back());
    idle_.pop_back();
    return last;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Recycler>> idle_;
  std::size_t made_ = 0;
};

}  // namespace heed::inline HEED_ABI::detail

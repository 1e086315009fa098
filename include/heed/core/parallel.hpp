// SPDX-License-Identifier: Apache-2.0
//
// Running independent jobs: serially, on an Eigen::ThreadPoolDevice, or by the user's own loop.
//
// heed starts no threads. An executor is anything that runs n jobs, in any order, on any threads:
//   void executor(Index n, const heed::Job& job);   // calls job(0) ... job(n-1), returns when done
// Work is cut by shape only, so results do not depend on which executor runs it. A call from
// inside the pool runs serially, so it cannot wait for itself. An exception that leaves a job
// (a user's policy, an allocation) is kept; the first one reaches the caller after the join.

#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "types.hpp"

namespace heed::inline HEED_ABI {

// A reference to a callable job(i); valid while the call that made it runs. Never throws.
class Job {
 public:
  template <class F>
  explicit Job(F& f) : object_(&f), call_([](void* p, Index i) { (*static_cast<F*>(p))(i); }) {}
  void operator()(Index i) const { call_(object_, i); }

 private:
  void* object_;
  void (*call_)(void*, Index);
};

struct Serial {
  void operator()(Index n, const Job& job) const {
    for (Index i = 0; i < n; ++i) job(i);
  }
};

// Eigen's devices, by shape.
template <class T>
concept EigenThreadPoolDevice = requires(const T& device) {
  device.getPool()->CurrentThreadId();
  device.numThreads();
};

template <class T>
concept Executor = EigenThreadPoolDevice<std::remove_cvref_t<T>> ||
                   std::is_invocable_v<const std::remove_cvref_t<T>&, Index, const Job&> ||
                   std::is_invocable_v<std::remove_cvref_t<T>&, Index, const Job&>;

namespace detail {

// Jobs handed out one by one to whoever asks. Shared by the caller and the pool's tasks, because a
// task may start only after all jobs are done and the caller has gone.
class Counted {
 public:
  Counted(Index n, const Job& job) : job_(job), n_(n) {}

  void work() {
    Index done = 0;
    for (Index i = next_++; i < n_; i = next_++) {
      job_(i);
      ++done;
    }
    if (done == 0 || finished_.fetch_add(done) + done != n_) return;
    const std::lock_guard lock(mutex_);   // whoever waits has not looked yet, or is waiting
    all_.notify_all();
  }
  // Looks for some ten microseconds before it sleeps: waking up takes longer than a decode step's
  // last job.
  void wait() {
    for (int i = 0; i < 20'000; ++i) {
      if (finished_ == n_) return;
    }
    std::unique_lock lock(mutex_);
    all_.wait(lock, [this] { return finished_ == n_; });
  }

 private:
  const Job job_;
  const Index n_;
  std::atomic<Index> next_ = 0, finished_ = 0;
  std::mutex mutex_;
  std::condition_variable all_;
};

template <class Device>
void run_on_pool(const Device& device, Index n, const Job& job) {
  auto* pool = device.getPool();
  const Index helpers = std::min<Index>(device.numThreads() - 1, n - 1);
  if (helpers <= 0 || pool->CurrentThreadId() != -1) return Serial{}(n, job);
  const auto counted = std::make_shared<Counted>(n, job);
  for (Index i = 0; i < helpers; ++i) pool->Schedule([counted] { counted->work(); });
  counted->work();
  counted->wait();
}

}  // namespace detail

// Runs f(0) ... f(n-1) and returns when all are done; rethrows the first exception.
template <class E, class F>
void run(E&& executor, Index n, F&& f) {
#if defined(__cpp_exceptions)
  std::exception_ptr first;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  auto guarded = [&](Index i) {
    try {
      f(i);
    } catch (...) {
      if (!failed.test_and_set()) first = std::current_exception();
    }
  };
  const Job job(guarded);
#else
  const Job job(f);
#endif
  if constexpr (EigenThreadPoolDevice<std::remove_cvref_t<E>>) {
    detail::run_on_pool(executor, n, job);
  } else if (n > 0) {
    executor(n, job);
  }
#if defined(__cpp_exceptions)
  if (first) std::rethrow_exception(first);
#endif
}

}  // namespace heed::inline HEED_ABI

// SPDX-License-Identifier: Apache-2.0
//
// F16: many decode steps: no allocation per step once warm, proved by counting every operator new,
// constant memory, and outputs that still equal a fresh computation over what is held.
// 20,000 steps, or 10,000,000 with HEED_RELEASE=1.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "support/cache_world.hpp"

namespace {
std::int64_t allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  void* const p = std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

#if !defined(__clang__)  // inlined, gcc sees free() take what operator new gave: both are ours
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t a) { return counted(size, std::size_t(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif
#else
constexpr bool kAddressSanitizer = false;
#endif

namespace {

using namespace support;
using heed::causal;

Index resident_pages() {
  // Without what is mapped from files: code is read in when it first runs.
  Index total = 0, resident = 0, shared = 0;
  if (std::FILE* const f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%td %td %td", &total, &resident, &shared) != 3) resident = shared = 0;
    std::fclose(f);
  }
  return resident - shared;
}

// Steps through a stream of tokens that repeats after 997, under the policies.
template <class E, class... Ps>
void soak(const char* name, heed::CacheOptions o, E eviction, const Ps&... policies) {
  constexpr Index kStream = 997;
  const World w = cache_world({1, 3, 1, kStream, kStream, 16, 16}, 16);
  o.batch = 1, o.heads = 3, o.kv_heads = 1, o.dim = 16;
  const Index steps = release_run() ? 10'000'000 : 20'000, warm = 200;
  heed::Cache cache{o, eviction};
  std::vector<float> out(48), lse(3);
  heed::Into into;
  into.out = {out.data(), {1, 3, 1, 16}};
  into.lse = {lse.data(), {1, 3, 1}};
  std::int64_t before = 0;
  Index pages = 0, checked = 0;
  for (Index step = 0; step < steps; ++step) {
    const Piece p = piece(w, step % kStream, 1);
    const bool look = step % (steps / 50) == steps / 50 - 1;
    std::vector<Index> kept;
    if (look) kept = held(cache);
    if (step == warm) pages = resident_pages();
    if (step >= warm) before = allocations;
    heed::decode(into, p.q, p.k, p.v, cache, policies...);
    if (step >= warm) {
      ASSERT_EQ(allocations, before) << name << " allocates at step " << step;
    }
    if (!look || o.key_positions == heed::KeyPositions::in_cache) continue;
    // The same token over the kept ones, by attend with their positions.
    kept.push_back(step);
    const Index n = Index(kept.size());
    std::vector<float> k(size(n * 16)), v(size(n * 16)), expected(48);
    for (Index j = 0; j < n; ++j) {
      std::copy_n(&w.data.k[size(kept[size(j)] % kStream * 16)], 16, &k[size(j * 16)]);
      std::copy_n(&w.data.v[size(kept[size(j)] % kStream * 16)], 16, &v[size(j * 16)]);
    }
    heed::Into fresh;
    fresh.out = {expected.data(), {1, 3, 1, 16}};
    heed::attend(fresh, p.q, heed::View<const float>(k.data(), {1, 1, n, 16}),
                 heed::View<const float>(v.data(), {1, 1, n, 16}), policies...,
                 heed::Positions{.q = std::vector<Index>{step}, .k = kept});
    for (std::size_t i = 0; i < 48; ++i)
      ASSERT_NEAR(out[i], expected[i], 3e-4) << name << ", " << step;
    ++checked;
  }
  // AddressSanitizer keeps freed memory for a while, so its pages say nothing.
  if (!kAddressSanitizer) {
    EXPECT_LE(resident_pages() - pages, 64) << name;
  }
  EXPECT_EQ(cache.seen(), steps);
  EXPECT_EQ(cache.size(), o.budget);
  EXPECT_EQ(checked, o.key_positions == heed::KeyPositions::original ? 50 : 0);
}

TEST(Soak, NoStepAllocatesAndNothingDrifts) {
  const heed::Rope rope{.pairing = heed::Pairing::halves};
  Eigen::Matrix<float, -1, -1, Eigen::RowMajor> table(9, 16);
  table.setConstant(0.05f);
  for (Index n = 0; n < 9; ++n) table.row(n) *= float(n);
  soak("oldest, rope", {.budget = 64}, heed::Oldest{.sinks = 4}, causal, rope);
  soak("tova, rope", {.budget = 100}, heed::Tova{}, causal, rope);
  soak("tova head, alibi", {.budget = 64, .scope = heed::Scope::head}, heed::Tova{}, causal,
       heed::Alibi{});
  soak("heavy hitters, cope", {.budget = 80}, heed::HeavyHitters{}, causal, heed::Cope{table});
  soak("tova, relative", {.budget = 70}, heed::Tova{}, causal, heed::Relative{table, true});
  soak("tova, rope in cache", {.budget = 64, .key_positions = heed::KeyPositions::in_cache},
       heed::Tova{}, causal, rope);
}

// An unbounded cache allocates only when it doubles.
TEST(Soak, AnUnboundedCacheAllocatesOnlyWhenItGrows) {
  const World w = cache_world({1, 3, 1, 997, 997, 16, 16}, 17);
  heed::Cache cache{{.heads = 3, .kv_heads = 1, .dim = 16}};
  std::vector<float> out(48);
  heed::Into into;
  into.out = {out.data(), {1, 3, 1, 16}};
  Index steps_that_allocate = 0;
  for (Index step = 0; step < 3000; ++step) {
    const Piece p = piece(w, step % 997, 1);
    const std::int64_t before = allocations;
    heed::decode(into, p.q, p.k, p.v, cache, causal);
    if (step > 200 && allocations != before) ++steps_that_allocate;
  }
  EXPECT_LE(steps_that_allocate, 5);
}

}  // namespace

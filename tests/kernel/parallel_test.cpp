// SPDX-License-Identifier: Apache-2.0
//
// Where jobs run: any executor, any number of threads, the same bits; exceptions come back once.
// Plain std::threads, so that ThreadSanitizer sees every access; Eigen's pool has its own file.

#include <bit>
#include <stdexcept>

#include "support/policies.hpp"

namespace support {
namespace {

World small() { return World({2, 4, 2, 70, 90, 8, 9}, Filling::normal, 3); }

TEST(Parallel, EveryJobRunsOnce) {
  for (const Index n : {0, 1, 2, 3, 7, 64, 1000}) {
    for (const Index threads : {0, 1, 2, 5, 16}) {
      std::vector<std::atomic<int>> runs(size(n));
      heed::run(Workers{threads}, n, [&](Index i) { ++runs[size(i)]; });
      for (const auto& r : runs) EXPECT_EQ(r, 1);
    }
  }
}
TEST(Parallel, SerialRunsOnTheCaller) {
  const auto caller = std::this_thread::get_id();
  heed::run(heed::Serial{}, 5, [&](Index) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}
TEST(Parallel, ALambdaIsAnExecutor) {
  const World w = small();
  Index jobs = 0;
  const auto executor = [&](Index n, const heed::Job& job) {
    jobs += n;
    for (Index i = 0; i < n; ++i) job(i);
  };
  std::vector<float> out(size(2 * 4 * 70 * 9));
  heed::Into into;
  into.out = {out.data(), {2, 4, 70, 9}};
  heed::attend(executor, into, w.q(w.whole()), w.k(w.whole()), w.v(w.whole()), heed::causal);
  EXPECT_GT(jobs, 1);
  EXPECT_TRUE(same_bits(attended(w, heed::causal).out, out));
}

// 100 shapes x threads x repeats in a usual run, 1,000 and more of each in a long one.
TEST(Parallel, R61AnyNumberOfThreadsGivesTheSameBits) {
  const Index shapes = release_run() ? 1000 : 25, repeats = release_run() ? 100 : 2;
  Random random(run_seed());
  std::uint64_t hash = 14695981039346656037u;
  for (Index n = 0; n < shapes; ++n) {
    Extents e{random.integer(1, 3), 0, random.integer(1, 2), edgy(random, 150) + 1,
              edgy(random, 200), random.integer(1, 20), random.integer(1, 20)};
    e.heads = e.kv_heads * random.integer(1, 3);
    const World w(e, Filling::normal, random.bits());
    TableOf table;
    table.make(random, 1, 20, e.dim, 0.5);
    const auto policy = heed::pack(heed::causal, heed::Alibi{}, heed::Cope{table.view()});
    const Outputs serial = run(w, w.whole(), policy);
    for (const float x : serial.out)
      hash = (hash ^ std::bit_cast<std::uint32_t>(x)) * 1099511628211u;
    for (const Index threads : {1, 2, 3, 4, 7, 8, 16}) {
      for (Index repeat = 0; repeat < repeats; ++repeat) {
        ASSERT_TRUE(same_bits(serial, run(w, w.whole(), policy, {threads}))) << threads;
      }
    }
  }
  std::printf("hash of %lld outputs: %016llx\n", static_cast<long long>(shapes),
              static_cast<unsigned long long>(hash));
}
TEST(Parallel, R61ASequenceAloneOrInABatchGivesTheSameBits) {
  const World w({16, 2, 1, 20, 40, 8, 8}, Filling::normal, 9);
  const auto policy = heed::pack(heed::causal, heed::Alibi{});
  const Outputs whole = run(w, w.whole(), policy, {4});
  for (Index b = 0; b < 16; ++b) {
    const Slice one{b, 1, 0, 20, 40};
    EXPECT_TRUE(same_bits(cut(w, whole, one), run(w, one, policy))) << b;
  }
}

// Calls from many threads at once share nothing.
TEST(Parallel, CallsFromSeveralThreadsAreIndependent) {
  const World w = small();
  const Outputs expected = attended(w, heed::causal);
  std::vector<Outputs> found(8);
  {
    std::vector<std::thread> callers;
    for (std::size_t i = 0; i < found.size(); ++i) {
      callers.emplace_back([&, i] {
        found[i] = run(w, w.whole(), heed::pack(heed::causal), {Index(i % 3)}, Weights::yes);
      });
    }
    for (auto& t : callers) t.join();
  }
  for (const Outputs& o : found) EXPECT_TRUE(same_bits(expected, o));
}
TEST(Parallel, R59ACallFromInsideAJobFinishes) {
  const World w = small();
  const Outputs expected = attended(w, heed::causal);
  std::vector<Outputs> found(6);
  heed::run(Workers{3}, 6, [&](Index i) {
    found[size(i)] = run(w, w.whole(), heed::pack(heed::causal), {2}, Weights::yes);
  });
  for (const Outputs& o : found) EXPECT_TRUE(same_bits(expected, o));
}

struct Thrown : std::runtime_error {
  using std::runtime_error::runtime_error;
};
TEST(Parallel, R60OneExceptionComesBack) {
  for (const Index threads : {0, 1, 4}) {
    for (const Index thrower : {0, 5, 99}) {
      std::atomic<int> ran = 0;
      EXPECT_THROW(heed::run(Workers{threads}, 100, [&](Index i) {
                     ++ran;
                     if (i == thrower) throw Thrown("one");
                   }), Thrown);
      EXPECT_EQ(ran, 100) << "the others still run";
    }
    EXPECT_THROW(heed::run(Workers{threads}, 100, [](Index) { throw Thrown("all"); }), Thrown);
  }
}
// A user's policy that throws, in any job; afterwards everything works as before.
TEST(Parallel, R60APolicyThatThrowsIsACatchableMistake) {
  const World w = small();
  const Outputs expected = attended(w, heed::causal);
  for (const Index threads : {0, 1, 2, 4}) {
    for (const Index at : {0, 30, 69}) {
      const auto bomb = heed::where([at](heed::Query q, heed::Key) -> bool {
        if (q.row == at && q.head == 2) throw Thrown("in a mask");
        return true;
      });
      EXPECT_THROW(run(w, w.whole(), heed::pack(heed::causal, bomb), {threads}), Thrown);
    }
    EXPECT_TRUE(same_bits(expected, run(w, w.whole(), heed::pack(heed::causal), {threads},
                                        Weights::yes)));
  }
}

}  // namespace
}  // namespace support

// SPDX-License-Identifier: Apache-2.0
//
// Saving and restoring: the same bits afterwards, and every damaged file refused with nothing
// changed: every prefix and every single-byte change of a small one.

#include <gtest/gtest.h>

#include <cstdio>

#include "support/cache_world.hpp"

namespace {

using namespace support;
using heed::causal;
using heed::Scope;

template <class E>
heed::Cache<E> filled(const World& w, heed::CacheOptions o, E eviction, Index tokens) {
  heed::Cache cache{o, eviction};
  decode_piece(w, piece(w, 0, tokens), cache, causal, heed::Alibi{});
  return cache;
}

TEST(Save, RestoresToTheSameBitsAndTheSameFuture) {
  const World w = cache_world({2, 4, 2, 60, 60, 6, 5}, 1);
  const auto test = [&](auto cache) {
    auto other = cache;
    other.reset();
    std::stringstream file(state_of(cache));
    other.restore(file);
    EXPECT_EQ(state_of(other), state_of(cache));
    const Outputs a = decode_piece(w, piece(w, 40, 20), cache, causal, heed::Alibi{});
    const Outputs b = decode_piece(w, piece(w, 40, 20), other, causal, heed::Alibi{});
    EXPECT_TRUE(same_bits(a, b));
    EXPECT_EQ(state_of(other), state_of(cache));
  };
  heed::CacheOptions o = options_of(w, 0);
  test(filled(w, o, heed::Unbounded{}, 40));
  test(filled(w, o, heed::Unbounded{}, 0));
  o.budget = 12;
  o.history = true;
  test(filled(w, o, heed::Tova{}, 40));
  test(filled(w, o, heed::Oldest{.sinks = 3}, 40));
  test(filled(w, o, heed::HeavyHitters{}, 40));
  test(filled(w, o, heed::HeavyHitters{}, 5));
  o.scope = Scope::head;
  o.budget = 0;
  o.budgets = {7, 20};
  test(filled(w, o, heed::Tova{}, 40));
}

// The state does not depend on which slots tokens lie in.
TEST(Save, WritesWhatIsHeldNotWhereItLies) {
  const World w = cache_world({1, 2, 1, 30, 30, 4, 4}, 2);
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 6;
  auto turned = filled(w, o, heed::Oldest{}, 17);
  std::stringstream file(state_of(turned));
  heed::Cache fresh{o, heed::Oldest{}};
  fresh.restore(file);
  EXPECT_NE(turned.slots().slot(0), fresh.slots().slot(0)) << "mistrusted: the same slots";
  EXPECT_EQ(state_of(turned), state_of(fresh));
}

TEST(Restore, RefusesADamagedFileAndChangesNothing) {
  const World w = cache_world({1, 2, 1, 12, 12, 2, 2}, 3);
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 4;
  o.history = true;
  auto cache = filled(w, o, heed::HeavyHitters{}, 9);
  const std::string good = state_of(cache);
  auto victim = filled(w, o, heed::HeavyHitters{}, 5);
  const std::string before = state_of(victim);
  const auto expect_refused = [&](const std::string& bytes, const char* what, std::size_t at) {
    std::stringstream file(bytes);
    bool refused = false;
    try {
      victim.restore(file);
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    ASSERT_TRUE(refused) << what << " at " << at;
    ASSERT_EQ(state_of(victim), before) << what << " at " << at;
  };
  for (std::size_t n = 0; n < good.size(); ++n) expect_refused(good.substr(0, n), "cut", n);
  expect_refused(good + 'x', "longer", good.size());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = char(bad[i] ^ change);
      expect_refused(bad, "changed", i);
    }
  }
  std::stringstream file(good);
  victim.restore(file);
  EXPECT_EQ(state_of(victim), good);
}

// Files whose checksum fits, but whose contents lie: no crash, and never a wrong state.
TEST(Restore, BelievesNoLengthThatTheFileDoesNotBear) {
  const World w = cache_world({1, 2, 1, 12, 12, 2, 2}, 3);
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 4;
  auto cache = filled(w, o, heed::HeavyHitters{}, 9);
  const std::string good = state_of(cache);
  Random random(5);
  Index refused = 0;
  for (std::size_t at = 8; at + 16 <= good.size(); at += 8) {
    for (int repeat = 0; repeat < 12; ++repeat) {
      std::string bad = good.substr(0, good.size() - 8);
      const std::int64_t number = random.pick<std::int64_t>(
          {-1, 0, 1, 5, 1000, INT64_MAX, INT64_MIN, INT64_MAX / 8, std::int64_t(random.bits())});
      std::memcpy(&bad[at], &number, 8);
      const std::uint64_t sum = heed::detail::checksum(bad.data(), bad.size());
      bad.append(reinterpret_cast<const char*>(&sum), 8);
      auto victim = cache;
      std::stringstream file(bad);
      try {
        victim.restore(file);
        ASSERT_LE(victim.size(), 4);
      } catch (const std::invalid_argument&) {
        ++refused;
        ASSERT_EQ(state_of(victim), good);
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Restore, RefusesAFileOfAnotherCacheInOneSentence) {
  const World w = cache_world({1, 4, 2, 12, 12, 2, 2}, 3);
  heed::CacheOptions o = options_of(w, 0);
  o.budget = 4;
  const std::string file = state_of(filled(w, o, heed::Tova{}, 9));
  const auto sentence = [&](auto cache, const std::string& bytes) -> std::string {
    std::stringstream stream(bytes);
    try {
      cache.restore(stream);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "not refused";
  };
  o.budget = 5;
  EXPECT_EQ(sentence(heed::Cache{o, heed::Tova{}}, file),
            "heed::Cache::restore: the budget of the file is 4; expected 5");
  o.budget = 4;
  EXPECT_NE(sentence(heed::Cache{o, heed::Oldest{}}, file).find("the eviction of the file is"),
            std::string::npos);
  o.dim = 3;
  EXPECT_EQ(sentence(heed::Cache{o, heed::Tova{}}, file),
            "heed::Cache::restore: dim of the file is 2; expected 3");
  o.dim = 2;
  std::string version = file;
  version[7] = '9';
  EXPECT_EQ(sentence(heed::Cache{o, heed::Tova{}}, version),
            "heed::Cache::restore: the file has version 09; expected 01");
  EXPECT_NE(sentence(heed::Cache{o, heed::Tova{}}, "").find("does not begin like a cache"),
            std::string::npos);
  heed::Cache cache{o, heed::Tova{}};
  EXPECT_THROW(cache.restore(std::string("/nowhere/at/all")), std::invalid_argument);
  EXPECT_THROW(cache.save(std::string("/nowhere/at/all")), std::invalid_argument);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
//
// The laws that every pack is tested by. A file of tests/laws names its packs:
//   INSTANTIATE_TYPED_TEST_SUITE_P(Masks, Laws, ::testing::Types<Described<Causal>, ...>,
//   PackName);

#pragma once

#include "policies.hpp"

namespace support {

struct PackName {
  template <class Pack>
  static std::string GetName(int) {
    return Pack::name();
  }
};

// What a pack needs of the extents.
template <class Pack>
Extents adapt(Extents e) {
  using Gates = oracle::Cope::Gates;
  if (Pack::template has<Coped<false, true, Gates::values>>()) e.v_dim = e.dim;
  if (Pack::template has<Roped<true>>() || Pack::template has<Roped<false>>()) {
    e.dim = std::max<Index>(e.dim, 2);
  }
  return e;
}

// Small, and at the edges of groups and tiles; queries that outnumber keys, no keys at all.
inline const std::vector<Extents>& standard_shapes() {
  static const std::vector<Extents> shapes{
      {1, 1, 1, 1, 1, 1, 1},    {2, 4, 2, 5, 5, 8, 8},      {1, 2, 1, 1, 70, 16, 16},
      {1, 3, 1, 64, 64, 4, 5},  {1, 1, 1, 65, 129, 33, 17}, {2, 2, 2, 130, 130, 3, 3},
      {1, 6, 2, 17, 200, 20, 12}, {1, 4, 4, 7, 3, 6, 6},    {1, 2, 1, 6, 0, 4, 4},
      {3, 2, 1, 63, 64, 16, 33}, {1, 8, 2, 16, 16, 5, 1},   {1, 2, 2, 100, 193, 7, 20}};
  return shapes;
}

template <class Pack>
class Laws : public ::testing::Test {};
TYPED_TEST_SUITE_P(Laws);

// Law 8, and the exact part of law 3: a row that sees nothing is 0, not nearly 0.
TYPED_TEST_P(Laws, AgreesWithTheOracle) {
  std::uint64_t seed = 1;
  std::vector<double> expected;
  for (const Extents& standard : standard_shapes()) {
    for (const Filling filling : kFillings) {
      const World world(adapt<TypeParam>(standard), filling, ++seed);
      const TypeParam described(world, seed * 31);
      const oracle::Case c = described.describe(world);
      const Outputs found =
          run(world, world.whole(), described.policy(world.whole()), {}, Weights::yes);
      const Verdict verdict = judge(found, c);
      Worst::instance().note("law 8", verdict.ratio, TypeParam::name() + ", " + name(filling));
      ASSERT_TRUE(verdict.passed())
          << "ratio " << verdict.ratio << ", " << name(filling) << ", q_len " << world.shape.q_len
          << ", kv_len " << world.shape.kv_len << ", dim " << world.shape.dim << ", seed " << seed
          << ": " << verdict.where;
      const auto right = oracle::attend<double>(c);
      if (filling == Filling::normal) {
        expected.insert(expected.end(), right.out.data.begin(), right.out.data.end());
      }
      for (std::size_t row = 0; row < found.lse.size(); ++row) {
        if (right.lse.data[row] != -std::numeric_limits<double>::infinity()) continue;
        ASSERT_EQ(found.lse[row], -std::numeric_limits<float>::infinity());
        ASSERT_EQ(found.entropy[row], 0.f);
        for (Index d = 0; d < world.shape.v_dim; ++d) {
          ASSERT_EQ(found.out[row * size(world.shape.v_dim) + size(d)], 0.f);
        }
      }
    }
  }
  EXPECT_TRUE(can_fail(expected));
}

// Law 2: who shares a block with a row does not show. A range of rows keeps its positions where
// the pack states them, or where the keys after the range's last row are left out.
TYPED_TEST_P(Laws, AnySplitOfRowsGivesTheSameBits) {
  constexpr bool from_the_top =
      TypeParam::template has<TopLeft>() || TypeParam::template has<Padded>();
  if (TypeParam::template has<Padded>() && !TypeParam::kCausal) {
    GTEST_SKIP() << "no part of the rows keeps its positions and all its keys";
  }
  const World world(adapt<TypeParam>({2, 4, 2, 150, 170, 8, 8}), Filling::normal, 5);
  const TypeParam described(world, 55);
  const Outputs whole = run(world, world.whole(), described.policy(world.whole()));
  const std::vector<std::vector<Index>> cuts{
      {0, 1, 64, 65, 100, 150}, {0, 75, 150}, {0, 3, 10, 17, 33, 34, 98, 149, 150}};
  for (const auto& cut_at : cuts) {
    for (std::size_t i = 0; i + 1 < cut_at.size(); ++i) {
      Slice part{0, 2, cut_at[i], cut_at[i + 1] - cut_at[i], world.shape.kv_len};
      if (from_the_top) {
        part.row_first = 0;
        part.rows = cut_at[i + 1];
      } else if (!TypeParam::kPlaced) {
        const Index left_out = world.shape.q_len - cut_at[i + 1];
        if (!TypeParam::kCausal) {
          part.rows += left_out;   // only the last rows stand where they stood
        } else {
          part.keys -= left_out;
        }
      }
      ASSERT_TRUE(same_bits(cut(world, whole, part), run(world, part, described.policy(part))))
          << "rows " << part.row_first << " to " << part.row_first + part.rows;
    }
  }
}

// Law 2: the number of threads and the order of jobs do not show.
TYPED_TEST_P(Laws, AnyNumberOfThreadsGivesTheSameBits) {
  const World world(adapt<TypeParam>({2, 4, 2, 130, 150, 8, 9}), Filling::normal, 6);
  const TypeParam described(world, 66);
  const auto policy = described.policy(world.whole());
  const Outputs serial = run(world, world.whole(), policy, {1}, Weights::yes);
  for (const Index threads : {0, 2, 3, 4, 7, 8, 16}) {
    ASSERT_TRUE(same_bits(serial, run(world, world.whole(), policy, {threads}, Weights::yes)))
        << threads << " threads";
  }
}

// Law 2: nor does the rest of the batch.
TYPED_TEST_P(Laws, ABatchEntryAloneGivesTheSameBits) {
  for (const Index q_len : {1, 5, 70}) {
    const World world(adapt<TypeParam>({3, 4, 2, q_len, 80, 8, 8}), Filling::normal, 7);
    const TypeParam described(world, 77);
    const Outputs whole = run(world, world.whole(), described.policy(world.whole()));
    for (Index b = 0; b < 3; ++b) {
      const Slice alone{b, 1, 0, q_len, 80};
      ASSERT_TRUE(same_bits(cut(world, whole, alone), run(world, alone, described.policy(alone))))
          << "entry " << b << " of 3, " << q_len << " rows";
    }
  }
}

// Compares the rows that `skip` does not name.
template <class Skip>
::testing::AssertionResult same_rows(const World& world, const Outputs& a, const Outputs& b,
                                     const Skip& skip, Index& compared) {
  const Extents& e = world.shape;
  compared = 0;
  for (Index row = 0; row < e.batch * e.heads * e.q_len; ++row) {
    if (skip(row / (e.heads * e.q_len), row / e.q_len % e.heads, row % e.q_len)) continue;
    ++compared;
    const auto piece = [row](const std::vector<float>& x, Index width) {
      return std::vector<float>(x.begin() + row * width, x.begin() + (row + 1) * width);
    };
    const auto of = [&](const Outputs& o) {
      return Outputs{piece(o.out, e.v_dim), piece(o.lse, 1), piece(o.entropy, 1),
                     piece(o.weights, e.kv_len)};
    };
    if (auto r = same_bits(of(a), of(b)); !r) return r << " in row " << row;
  }
  return ::testing::AssertionSuccess();
}

// Law 3: whatever stands in a hidden key or its value, the rows that do not see it keep their bits.
TYPED_TEST_P(Laws, WhatIsHiddenIsAbsent) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Random random(8);
  Index rows_compared = 0;
  for (const Extents& standard :
       {Extents{2, 4, 2, 20, 20, 8, 8}, {1, 2, 1, 130, 140, 6, 17}, {2, 2, 2, 3, 70, 16, 16}}) {
    const World clean(adapt<TypeParam>(standard), Filling::normal, 9);
    const Extents e = clean.shape;
    const TypeParam described(clean, 99);
    const Outputs before =
        run(clean, clean.whole(), described.policy(clean.whole()), {}, Weights::yes);
    const auto visible = oracle::attend<double>(described.describe(clean)).visible;
    for (int repeat = 0; repeat < 6; ++repeat) {
      World poisoned = clean;
      std::vector<char> hit(size(e.batch * e.kv_heads * e.kv_len));
      for (Index n = 0; n < 4; ++n) {
        // The newest keys are those that most rows do not see.
        const Index j = repeat % 2 ? random.integer(0, e.kv_len - 1)
                                   : random.integer(e.kv_len - 3, e.kv_len - 1);
        const Index row = random.integer(0, e.batch * e.kv_heads - 1) * e.kv_len + j;
        hit[size(row)] = 1;
        const float poison =
            random.pick({std::nanf(""), kInfinity, -kInfinity, 3e38f});
        for (Index d = 0; d < e.dim; ++d) poisoned.data.k[size(row * e.dim + d)] = poison;
        for (Index d = 0; d < e.v_dim; ++d) poisoned.data.v[size(row * e.v_dim + d)] = poison;
      }
      const Outputs after =
          run(poisoned, poisoned.whole(), described.policy(poisoned.whole()), {}, Weights::yes);
      const auto sees_poison = [&](Index b, Index h, Index i) {
        for (Index j = 0; j < e.kv_len; ++j) {
          const Index g = b * e.kv_heads + h / (e.heads / e.kv_heads);
          if (hit[size(g * e.kv_len + j)] && visible(b, h, i, j)) return true;
        }
        return false;
      };
      Index compared = 0;
      ASSERT_TRUE(same_rows(clean, before, after, sees_poison, compared));
      rows_compared += compared;
    }
  }
  EXPECT_GT(rows_compared, 100) << "mistrusted: nearly every row saw a poisoned key";
}

// Law 7: a row's bits do not depend on the other rows of its block.
TYPED_TEST_P(Laws, RowsDoNotTouchEachOther) {
  Random random(10);
  for (const Extents& standard : {Extents{2, 4, 2, 20, 40, 8, 8}, {1, 2, 1, 130, 140, 6, 17}}) {
    const World clean(adapt<TypeParam>(standard), Filling::normal, 11);
    const Extents e = clean.shape;
    const TypeParam described(clean, 111);
    const Outputs before =
        run(clean, clean.whole(), described.policy(clean.whole()), {}, Weights::yes);
    for (int repeat = 0; repeat < 4; ++repeat) {
      World changed = clean;
      std::vector<char> hit(size(e.batch * e.heads * e.q_len));
      for (std::size_t row = 0; row < hit.size(); ++row) {
        if (!random.chance(0.3)) continue;
        hit[row] = 1;
        const double by = random.pick({0.0, 1.0, 30.0, 1e10});
        for (Index d = 0; d < e.dim; ++d) {
          changed.data.q[row * size(e.dim) + size(d)] =
              repeat == 0 ? std::nanf("") : static_cast<float>(by * random.normal());
        }
      }
      const Outputs after =
          run(changed, changed.whole(), described.policy(changed.whole()), {}, Weights::yes);
      const auto was_hit = [&](Index b, Index h, Index i) {
        return hit[size((b * e.heads + h) * e.q_len + i)] != 0;
      };
      Index compared = 0;
      ASSERT_TRUE(same_rows(clean, before, after, was_hit, compared));
      EXPECT_GT(compared, 50);
    }
  }
}

REGISTER_TYPED_TEST_SUITE_P(Laws, AgreesWithTheOracle, AnySplitOfRowsGivesTheSameBits,
                            AnyNumberOfThreadsGivesTheSameBits, ABatchEntryAloneGivesTheSameBits,
                            WhatIsHiddenIsAbsent, RowsDoNotTouchEachOther);

}  // namespace support

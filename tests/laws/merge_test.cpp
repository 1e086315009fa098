// SPDX-License-Identifier: Apache-2.0
//
// Law 2: ranges of keys attended separately and merged are one range, within tolerance. A walking
// score hands its gate sums from the newest range to the oldest.

#include "support/policies.hpp"

namespace support {
namespace {

// Keys cut at these indices; equal numbers give an empty range.
using Cuts = std::vector<Index>;

struct Piece {
  std::vector<float> out, lse, entropy;
  heed::Part part(const Extents& e) {
    heed::Part p;
    p.out = heed::View<const float>(out.data(), {e.batch, e.heads, e.q_len, e.v_dim});
    p.lse = {lse.data(), {e.batch, e.heads, e.q_len}};
    p.entropy = {entropy.data(), {e.batch, e.heads, e.q_len}};
    return p;
  }
};

struct Join {
  const World& world;
  Index rows() const { return world.shape.batch * world.shape.heads * world.shape.q_len; }

  heed::View<const float> range(const std::vector<float>& x, Index dim, Index from,
                                Index to) const {
    const Extents& e = world.shape;
    return {x.data() + from * dim, {e.batch, e.kv_heads, to - from, dim},
            {e.kv_heads * e.kv_len * dim, e.kv_len * dim, dim}};
  }
  // Newest range first. policies(from, to, resume) gives the pack for keys [from, to).
  template <class Policies>
  Outputs operator()(const Cuts& cuts, bool walking, const Policies& policies) const {
    const Extents& e = world.shape;
    std::vector<Piece> pieces(cuts.size() - 1);
    std::vector<float> carry(size(rows() * 2)), next = carry;
    std::vector<heed::Part> parts;
    for (std::size_t i = pieces.size(); i-- > 0;) {
      Piece& piece = pieces[i];
      piece.out.resize(size(rows() * e.v_dim));
      piece.lse.resize(size(rows()));
      piece.entropy.resize(size(rows()));
      heed::Into into;
      into.out = {piece.out.data(), {e.batch, e.heads, e.q_len, e.v_dim}};
      into.lse = {piece.lse.data(), {e.batch, e.heads, e.q_len}};
      into.entropy = {piece.entropy.data(), {e.batch, e.heads, e.q_len}};
      if (walking) into.carry = {next.data(), {e.batch, e.heads, e.q_len, 2}};
      const Index from = cuts[i], to = cuts[i + 1];
      const heed::Resume resume{
          heed::View<const float>(carry.data(), {e.batch, e.heads, e.q_len, 2})};
      heed::attend(into, world.q(world.whole()), range(world.data.k, e.dim, from, to),
                   range(world.data.v, e.v_dim, from, to), policies(from, to, resume));
      carry.swap(next);
      parts.push_back(piece.part(e));
    }
    Outputs merged{std::vector<float>(size(rows() * e.v_dim)), std::vector<float>(size(rows())),
                   std::vector<float>(size(rows())), {}};
    heed::Into into;
    into.out = {merged.out.data(), {e.batch, e.heads, e.q_len, e.v_dim}};
    into.lse = {merged.lse.data(), {e.batch, e.heads, e.q_len}};
    into.entropy = {merged.entropy.data(), {e.batch, e.heads, e.q_len}};
    heed::merge(into, parts);
    return merged;
  }
};

std::vector<Index> numbers(Index from, Index to) {
  std::vector<Index> list;
  for (Index i = from; i < to; ++i) list.push_back(i);
  return list;
}

const std::vector<Cuts>& all_cuts() {
  static const std::vector<Cuts> cuts{{0, 90}, {0, 64, 90}, {0, 1, 90}, {0, 89, 90},
                                      {0, 0, 40, 40, 65, 90, 90},
                                      {0, 10, 20, 30, 40, 50, 60, 70, 80, 90}};
  return cuts;
}

TEST(Merge, R47RangesOfKeysAreTheWhole) {
  const World world({2, 4, 2, 70, 90, 8, 9}, Filling::normal, 14);
  const Described<Causal> described(world, 1);
  const auto queries = numbers(20, 90);
  for (const Cuts& cuts : all_cuts()) {
    std::vector<Index> keys;
    const Outputs merged = Join{world}(cuts, false, [&](Index from, Index to, heed::Resume) {
      keys = numbers(from, to);
      return heed::pack(heed::causal, heed::Positions{.q = queries, .k = keys});
    });
    const Verdict verdict = judge(merged, described.describe(world));
    Worst::instance().note("merge", verdict.ratio, std::to_string(cuts.size() - 1) + " ranges");
    ASSERT_TRUE(verdict.passed()) << verdict.ratio << ": " << verdict.where;
  }
}

template <class Cope>
void expect_resumed(std::uint64_t seed) {
  const World world({2, 4, 2, 70, 90, 8, 9}, Filling::normal, seed);
  const Described<Causal, Cope> described(world, seed);
  Cope cope;
  Random random(seed);
  cope.prepare(world, random);
  const auto queries = numbers(20, 90);
  for (const Cuts& cuts : all_cuts()) {
    std::vector<Index> keys;
    const Outputs merged = Join{world}(cuts, true, [&](Index from, Index to, heed::Resume resume) {
      keys = numbers(from, to);
      return heed::pack(heed::causal, heed::Positions{.q = queries, .k = keys},
                        cope.policy(world.whole()), resume);
    });
    const Verdict verdict = judge(merged, described.describe(world));
    Worst::instance().note("merge of CoPE", verdict.ratio,
                           std::to_string(cuts.size() - 1) + " ranges");
    ASSERT_TRUE(verdict.passed()) << verdict.ratio << ": " << verdict.where;
  }
}

TEST(Merge, CopeHandsItsGateSumsToOlderRanges) {
  // Several tables: few rows that settle at once, many that never do.
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u, 6u}) expect_resumed<Coped<false, true>>(seed);
}
TEST(Merge, CopeWithoutTheOwnTokenHandsItsGateSumsToOlderRanges) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) expect_resumed<Coped<true, false>>(seed);
}
TEST(Merge, WithoutTheCarryCopeWouldBeWrong) {   // the test above can fail
  const World world({1, 1, 1, 70, 90, 8, 9}, Filling::normal, 2);
  Coped<false, true> cope;
  Random random(2);
  cope.prepare(world, random);
  cope.table.make(random, 1, 64, 8, 0.5);
  const auto queries = numbers(20, 90);
  std::vector<Index> keys;
  const auto merged = [&](bool resumes) {
    return Join{world}({0, 64, 90}, true, [&](Index from, Index to, heed::Resume resume) {
      keys = numbers(from, to);
      if (!resumes) resume.carry = {};
      return heed::pack(heed::causal, heed::Positions{.q = queries, .k = keys},
                        cope.policy(world.whole()), resume);
    });
  };
  EXPECT_TRUE(differs(merged(true).out, merged(false).out, 1e-2));
}

TEST(Merge, R47SinkStandsInExactlyOneRange) {
  const World world({1, 2, 1, 9, 40, 4, 5}, Filling::normal, 15);
  const Described<Causal, Sunk> described(world, 3);
  Sunk sunk;
  Random random(3);
  sunk.prepare(world, random);
  const auto queries = numbers(31, 40);
  for (Index ranges = 1; ranges <= 9; ++ranges) {
    Cuts cuts{0, 0};   // an empty range at the front
    for (Index i = 1; i <= ranges; ++i) cuts.push_back(40 * i / ranges);
    // The sink's range is the empty one: attended alone, it is the sink alone.
    std::vector<Index> keys;
    std::vector<float> none(2, -1e30f);
    const Outputs merged = Join{world}(cuts, false, [&](Index from, Index to, heed::Resume) {
      keys = numbers(from, to);
      return heed::pack(heed::causal, heed::Positions{.q = queries, .k = keys},
                        heed::SinkLogits{from == to ? sunk.logits : none});
    });
    const Verdict verdict = judge(merged, described.describe(world));
    ASSERT_TRUE(verdict.passed()) << ranges << " ranges: " << verdict.ratio << ": "
                                  << verdict.where;
  }
}

// Merges rows of one number.
struct Row {
  std::vector<float> out, lse, entropy;
};
Row merge_rows(std::vector<Row> rows) {
  Row result{std::vector<float>(rows[0].out.size(), -7.f), {-7.f}, {-7.f}};
  std::vector<heed::Part> parts;
  for (Row& row : rows) {
    heed::Part part;
    part.out = heed::View<const float>(row.out.data(), {1, 1, 1, Index(row.out.size())});
    part.lse = {row.lse.data(), {1, 1, 1}};
    part.entropy = {row.entropy.data(), {1, 1, 1}};
    parts.push_back(part);
  }
  heed::Into into;
  into.out = {result.out.data(), {1, 1, 1, Index(result.out.size())}};
  into.lse = {result.lse.data(), {1, 1, 1}};
  into.entropy = {result.entropy.data(), {1, 1, 1}};
  heed::merge(into, parts);
  return result;
}
const float kNothing = -std::numeric_limits<float>::infinity();

TEST(Merge, R44TwoEmptyRangesAreEmpty) {
  const Row r = merge_rows({{{0, 0}, {kNothing}, {0}}, {{0, 0}, {kNothing}, {0}}});
  EXPECT_EQ(r.out, (std::vector<float>{0, 0}));
  EXPECT_EQ(r.lse[0], kNothing);
  EXPECT_EQ(r.entropy[0], 0);
}
TEST(Merge, R44R45AnEmptyRangeChangesNoBit) {
  const Row x{{0.1f, -3.7f}, {1.2345678f}, {0.7f}}, empty{{0, 0}, {kNothing}, {0}};
  for (const Row& r : {merge_rows({x, empty}), merge_rows({empty, x}), merge_rows({x}),
                       merge_rows({empty, x, empty})}) {
    EXPECT_TRUE(same_bits(r.out, x.out));
    EXPECT_TRUE(same_bits(r.lse, x.lse));
    EXPECT_TRUE(same_bits(r.entropy, x.entropy));
  }
}
TEST(Merge, R46LseIsANaturalLogarithm) {
  const Row r = merge_rows({{{1}, {0}, {0}}, {{0}, {3}, {0}}});
  EXPECT_NEAR(r.out[0], 0.0474259, 1e-7);
  EXPECT_NEAR(r.lse[0], 3.0485873, 1e-6);
  EXPECT_NEAR(r.entropy[0], 0.19096, 1e-4);   // of two outcomes
}
TEST(Merge, RangesFarApartDoNotOverflow) {
  const Row r = merge_rows({{{1}, {-60000}, {0}}, {{2}, {60000}, {0}}, {{3}, {-3e38f}, {0}}});
  EXPECT_EQ(r.out[0], 2);
  EXPECT_EQ(r.lse[0], 60000);
}
TEST(Merge, ANaNRangeIsNotHidden) {
  const float nan = std::nanf("");
  for (const Row& r : {merge_rows({{{nan}, {nan}, {nan}}, {{2}, {1}, {0}}}),
                       merge_rows({{{2}, {1}, {0}}, {{nan}, {nan}, {nan}}})}) {
    EXPECT_TRUE(std::isnan(r.out[0]));
    EXPECT_TRUE(std::isnan(r.lse[0]));
  }
}
TEST(Merge, IsAssociative) {
  const Row a{{1}, {0.3f}, {0.1f}}, b{{-2}, {2.f}, {0.9f}}, c{{5}, {-1.f}, {0.4f}};
  const Row left = merge_rows({merge_rows({a, b}), c}), right = merge_rows({a, merge_rows({b, c})});
  EXPECT_NEAR(left.out[0], right.out[0], 1e-6);
  EXPECT_NEAR(left.lse[0], right.lse[0], 1e-6);
  EXPECT_NEAR(left.entropy[0], right.entropy[0], 1e-6);
}

}  // namespace
}  // namespace support

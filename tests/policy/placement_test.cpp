// SPDX-License-Identifier: Apache-2.0

#include "heed/policy/placement.hpp"

#include "block.hpp"

namespace heed {
namespace {

using test::refusal;

const Shape kShape{.batch = 2, .q_len = 2, .kv_len = 3};

TEST(Placement, QueriesAreTheLastPositionsByDefault) {
  const BottomRight placement;
  EXPECT_EQ(placement.query_position(kShape, 1, 0), 1);
  EXPECT_EQ(placement.query_position(kShape, 1, 1), 2);
  EXPECT_EQ(placement.key_position(kShape, 1, 2), 2);
}

TEST(Placement, TopLeftStartsAtZero) {
  EXPECT_EQ(top_left.query_position(kShape, 0, 1), 1);
  EXPECT_EQ(top_left.key_position(kShape, 0, 2), 2);
  EXPECT_EQ(top_left.extents(kShape, 0).kv_len, 3);
}

TEST(Placement, PositionsForAllEntriesOrForEach) {
  const std::vector<Index> q{5, 9}, k{-1, 0, 9}, q_each{5, 9, 1, 2};
  const Positions shared{.q = q, .k = k}, each{.q = q_each, .k = k};
  shared.check(kShape);
  each.check(kShape);
  EXPECT_EQ(shared.query_position(kShape, 1, 1), 9);
  EXPECT_EQ(each.query_position(kShape, 1, 1), 2);
  EXPECT_EQ(each.key_position(kShape, 1, 0), -1);
  EXPECT_EQ(each.extents(kShape, 1).q_len, 2);
}

TEST(Placement, PositionsAreChecked) {
  const std::vector<Index> three{0, 1, 2}, two{4, 5}, equal{4, 4}, falling{5, 6, 8, 7};
  const std::vector<Index> far{0, (Index{1} << 62) + 1};
  const auto said = [](const std::vector<Index>& q, const std::vector<Index>& k) {
    return refusal([&] { Positions{.q = q, .k = k}.check(kShape); });
  };
  EXPECT_EQ(said(two, three), "");
  EXPECT_EQ(said(three, three),
            "heed::attend: Positions.q has 3 numbers; expected 2, or 2 x 2 for every batch entry "
            "its own");
  EXPECT_EQ(said(two, two).substr(0, 41), "heed::attend: Positions.k has 2 numbers; ");
  EXPECT_EQ(said(equal, three),
            "heed::attend: Positions.q has 4 at 1, after 4; expected strictly ascending positions "
            "between -2^62 and 2^62");
  EXPECT_EQ(said(falling, three).substr(0, 47), "heed::attend: Positions.q has 7 at 3, after 8; ");
  EXPECT_NE(said(far, three), "");
  const std::vector<Index> starts_again{5, 6, 0, 1};
  EXPECT_EQ(said(starts_again, three), "");
}

TEST(Placement, LengthsEndAtTheLastValidKey) {
  const std::vector<Index> q{1, 2}, kv{2, 3};
  const Lengths lengths{.q = q, .kv = kv};
  lengths.check(kShape);
  EXPECT_EQ(lengths.query_position(kShape, 0, 0), 1);
  EXPECT_EQ(lengths.query_position(kShape, 1, 0), 1);
  EXPECT_EQ(lengths.query_position(kShape, 1, 1), 2);
  EXPECT_EQ(lengths.extents(kShape, 0).q_len, 1);
  EXPECT_EQ(lengths.extents(kShape, 0).kv_len, 2);
  const Lengths all_rows{.kv = kv};
  all_rows.check(kShape);
  EXPECT_EQ(all_rows.extents(kShape, 0).q_len, 2);
  EXPECT_EQ(all_rows.query_position(kShape, 0, 1), 1);
}

TEST(Placement, LengthsAreChecked) {
  const std::vector<Index> good{0, 2}, one{1}, many{1, 4}, negative{-1, 0};
  const auto said = [](List<Index> q, List<Index> kv) {
    return refusal([&] { Lengths{.q = q, .kv = kv}.check(kShape); });
  };
  EXPECT_EQ(said(good, good), "");
  EXPECT_EQ(said({}, one),
            "heed::attend: Lengths.kv has 1 numbers; expected one per batch entry, 2");
  EXPECT_EQ(said(good, many),
            "heed::attend: Lengths.kv has 4 for entry 1; expected between 0 and 3");
  EXPECT_EQ(said(negative, good),
            "heed::attend: Lengths.q has -1 for entry 0; expected between 0 and 2");
  EXPECT_NE(said(good, {}), "");
}

}  // namespace
}  // namespace heed

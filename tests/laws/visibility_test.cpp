// SPDX-License-Identifier: Apache-2.0
//
// Law 1: a mask's word about a whole tile never lies, and its lane bits are its pairs. On random
// blocks: full and ragged, one head and stacked heads, positions with and without gaps.

#include <set>

#include "support/policies.hpp"

namespace support {
namespace {

constexpr Index kLength = 300;

struct Block {
  heed::Rows rows;
  heed::Keys keys;
  std::vector<Index> key_positions;
};

// Rows and keys as the walk makes them, anywhere in a sequence of kLength.
void make(Random& r, Block& block) {
  const bool gaps = r.chance(0.5), stacked = r.chance(0.3);
  std::vector<Index> query_positions;
  block.key_positions.clear();
  Index q = r.integer(-5, 20), k = r.integer(-5, 20);
  for (Index i = 0; i < kLength; ++i) {
    query_positions.push_back(q += gaps ? r.pick<Index>({1, 1, 2, 40}) : 1);
    block.key_positions.push_back(k += gaps ? r.pick<Index>({1, 1, 3, 25}) : 1);
  }
  heed::Rows& rows = block.rows;
  rows.count = r.pick<Index>({1, 2, 17, 63, 64});
  rows.batch = r.integer(0, 1);
  rows.heads = 2;
  const Index first = r.integer(0, kLength - rows.count);
  const Index per_head = stacked ? (rows.count + 1) / 2 : rows.count;
  rows.one_head = rows.consecutive = true;
  for (Index lane = 0; lane < rows.count; ++lane) {
    rows.head[lane] = lane / per_head;
    rows.row[lane] = first + lane % per_head;
    rows.position[lane] = query_positions[size(rows.row[lane])];
    rows.one_head = rows.one_head && rows.head[lane] == 0;
    rows.consecutive = rows.consecutive && rows.position[lane] == rows.position[0] + lane;
  }
  rows.min_position = *std::min_element(rows.position, rows.position + rows.count);
  rows.max_position = *std::max_element(rows.position, rows.position + rows.count);
  block.keys.first = r.integer(0, kLength / heed::kKeys - 1) * heed::kKeys;
  block.keys.count = r.pick<Index>({1, 16, 33, 64});
  block.keys.position = block.key_positions.data() + block.keys.first;
}

// How often each answer was given, so that a mask that always says `some` is found out.
template <class Mask>
std::set<heed::Visibility> expect_honest(const Mask& mask) {
  static_assert(heed::Mask<Mask>);
  Random random(run_seed());
  std::set<heed::Visibility> answers;
  for (int repeat = 0; repeat < 600; ++repeat) {
    Block block;
    make(random, block);
    const auto answer = mask.visibility(block.rows, block.keys);
    answers.insert(answer);
    bool any = false, all = true, later = false;
    for (Index j = 0; j < block.keys.count; ++j) {
      const heed::Key key = block.keys.at(j);
      const heed::LaneBits lanes = heed::lanes_of(mask, block.rows, key);
      for (Index lane = 0; lane < block.rows.count; ++lane) {
        const bool seen = mask.visible(block.rows.query(lane), key);
        any = any || seen;
        all = all && seen;
        later = later || (seen && key.position > block.rows.position[lane]);
        if ((lanes >> lane & 1) != heed::LaneBits{seen}) {
          ADD_FAILURE() << "lanes and visible differ: query " << block.rows.position[lane]
                        << ", key " << key.position;
          return answers;
        }
      }
    }
    EXPECT_TRUE(answer != heed::Visibility::all || all) << "said all, but some pairs are hidden";
    EXPECT_TRUE(answer != heed::Visibility::none || !any)
        << "said none, but some pairs are visible";
    EXPECT_FALSE(Mask::causal && later) << "said causal, but a later key is visible";
    if (::testing::Test::HasFailure()) return answers;
  }
  return answers;
}

using heed::Visibility;
const std::set<Visibility> kEveryAnswer{Visibility::none, Visibility::some, Visibility::all};

bool odd(Index q, Index k) { return (q + k) % 2 != 0; }

TEST(Visibility, CausalIsHonest) { EXPECT_EQ(expect_honest(heed::causal), kEveryAnswer); }
TEST(Visibility, WindowIsHonest) {
  EXPECT_EQ(expect_honest(heed::Window{100}), kEveryAnswer);
  expect_honest(heed::Window{1});
  expect_honest(heed::Window{Index{1} << 40});
}
TEST(Visibility, SinksAreHonest) {
  EXPECT_EQ(expect_honest(heed::Sinks{90}), kEveryAnswer);
  expect_honest(heed::Sinks{0});
}
TEST(Visibility, PredicateIsHonest) {
  expect_honest(heed::where(odd));
  expect_honest(heed::where([](heed::Query q, heed::Key k) { return q.row > k.index; }));
}
TEST(Visibility, SlidingWindowIsHonest) {
  EXPECT_EQ(expect_honest(heed::causal & heed::Window{100}), kEveryAnswer);
  EXPECT_EQ(expect_honest(heed::causal & (heed::Window{40} | heed::Sinks{70})), kEveryAnswer);
  expect_honest(heed::causal & (heed::Window{1} | heed::Sinks{1}));
}
TEST(Visibility, NegationIsHonest) {
  EXPECT_EQ(expect_honest(!heed::causal), kEveryAnswer);
  EXPECT_EQ(expect_honest(!(heed::causal & heed::Window{64})), kEveryAnswer);
  expect_honest(!heed::where(odd));
  expect_honest(!!heed::Window{33});
}
TEST(Visibility, DeepCompositionsAreHonest) {
  expect_honest((heed::causal | heed::Sinks{20}) & !(heed::Window{50} & heed::where(odd)));
  expect_honest((!((!heed::causal) | (!heed::Window{70}))) | (heed::Sinks{5} & heed::causal));
  expect_honest((heed::causal & heed::Window{64}) | (heed::causal & heed::Sinks{64}));
}

// Two batch entries, by index.
std::vector<Index> documents(double change, std::uint64_t seed) {
  Random random(seed);
  std::vector<Index> ids;
  Index id = 7;
  for (Index i = 0; i < 2 * kLength; ++i) {
    if (random.chance(change)) id = random.integer(-3, 12);   // a document may come back
    ids.push_back(id);
  }
  return ids;
}
TEST(Visibility, DocumentsAreHonest) {
  const auto few = documents(0.004, 1), many = documents(0.3, 2);
  EXPECT_EQ(expect_honest(heed::SameDocument{.q = few, .k = few, .batch = 2}), kEveryAnswer);
  expect_honest(heed::SameDocument{.q = many, .k = few, .batch = 2});
  expect_honest(heed::causal & heed::SameDocument{.q = few, .k = few, .batch = 2});
  expect_honest(!heed::SameDocument{.q = few, .k = many, .batch = 2});
}

TEST(Visibility, DenseMaskIsHonest) {
  Random random(3);
  const auto keep = std::make_unique<bool[]>(size(2 * 2 * kLength * kLength));
  for (Index b = 0; b < 2; ++b) {
    for (Index row = 0; row < 2 * kLength; ++row) {
      for (Index j = 0; j < kLength; ++j) {
        // Stretches of all, none and some.
        const Index part = (row / 100 + j / 100 + b) % 3;
        keep[size((b * 2 * kLength + row) * kLength + j)] =
            part == 0 || (part == 1 && random.chance(0.5));
      }
    }
  }
  const heed::DenseMask full{heed::View<const bool>(keep.get(), {2, 2, kLength, kLength})};
  EXPECT_EQ(expect_honest(full), kEveryAnswer);
  const heed::DenseMask shared{heed::View<const bool>(keep.get(), {1, 1, kLength, kLength})};
  expect_honest(shared);
  expect_honest(heed::causal & !full);
}

// The words of compile time.
TEST(Visibility, CausalIsKnownAtCompileTime) {
  const auto never = heed::where(odd);
  static_assert(decltype(heed::causal & never)::causal);
  static_assert(decltype(never & heed::causal)::causal);
  static_assert(!decltype(heed::causal | never)::causal);
  static_assert(decltype(heed::causal | (heed::causal & never))::causal);
  static_assert(!decltype(!heed::causal)::causal);
  static_assert(!heed::Window::causal && !heed::Sinks::causal && !heed::DenseMask::causal);
}

}  // namespace
}  // namespace support

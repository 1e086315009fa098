// SPDX-License-Identifier: Apache-2.0
//
// Vectors worked out by hand, against the oracle and against the kernel: CoPE in both forms with
// length 4, dim 2 and three table rows, causal.

#include "support/policies.hpp"

namespace support {
namespace {

const std::vector<float> kTable{0.5f, -0.5f, 1, 0, -1, 0.5f};
World example() {
  World w({1, 1, 1, 4, 4, 2, 2}, Filling::equal, 0);
  w.data.q = {1, 0, 0, 1, 1, 1, 2, -1};
  w.data.k = {1, 1, -1, 2, 0, 1, 1, 0};
  w.data.v = {1, 0, 0, 1, 1, 1, -1, 1};
  return w;
}
oracle::Case described(const World& w, bool form_b) {
  oracle::Case c = w.oracle_case();
  Causal{}.describe(c);
  c.scores.push_back(oracle::Cope{.table = {1, 3, 2, doubles(kTable)}, .form_b = form_b,
                                  .gate_keys = {}});
  return c;
}
struct Golden {
  bool form_b;
  std::vector<double> weights, out;
};
const Golden kForms[] = {
    {false,
     {1, 0, 0, 0, .408003, .591997, 0, 0, .255350, .339082, .405568, 0, .010392, .006168, .066147,
      .917292},
     {1, 0, .408003, .591997, .660918, .744650, -.840753, .989608}},
    {true,
     {1, 0, 0, 0, .384543, .615457, 0, 0, .320410, .318314, .361276, 0, .030374, .007458, .074302,
      .887866},
     {1, 0, .384543, .615457, .681686, .679590, -.783190, .969626}}};

template <class T>
void expect_near(const std::vector<T>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(found[i]), expected[i], 6e-7) << "at " << i;
  }
}

TEST(Golden, OracleCountsWithGates) {
  const auto p = oracle::attend<double>(described(example(), false)).positions;
  const std::vector<double> rows[] = {{1.474191, 0.804430},
                                      {2.143953, 1.339523, 0.669762},
                                      {1.860237, 1.190475, 1.134668, 0.804430}};
  for (Index i = 1; i < 4; ++i) {
    for (Index j = 0; j <= i; ++j) {
      EXPECT_NEAR(p(0, 0, i, j), rows[i - 1][size(j)], 6e-7) << i << ", " << j;
    }
  }
}
TEST(Golden, OracleGivesTheVectors) {
  for (const Golden& golden : kForms) {
    const auto found = oracle::attend<double>(described(example(), golden.form_b));
    expect_near(found.weights.data, golden.weights);
    expect_near(found.out.data, golden.out);
  }
}
TEST(Golden, KernelGivesTheVectors) {
  for (const Golden& golden : kForms) {
    const Outputs found = attended(
        example(), heed::causal,
        heed::Cope{heed::TableView(kTable.data(), 1, 3, 2),
                   {.form = golden.form_b ? heed::CopeForm::b : heed::CopeForm::a}});
    expect_near(found.weights, golden.weights);
    expect_near(found.out, golden.out);
  }
}
TEST(Golden, KernelHandsOverTheGateSums) {
  const World w = example();
  std::vector<float> out(8), carry(8);
  heed::Into into;
  into.out = {out.data(), {1, 1, 4, 2}};
  into.carry = {carry.data(), {1, 1, 4, 2}};
  heed::attend(into, w.q(w.whole()), w.k(w.whole()), w.v(w.whole()), heed::causal,
               heed::Cope{heed::TableView(kTable.data(), 1, 3, 2)});
  const std::vector<double> sums{0.669762, 1.474191, 2.143953, 1.860237};
  for (std::size_t i = 1; i < 4; ++i) EXPECT_NEAR(carry[2 * i] + carry[2 * i + 1], sums[i], 1e-6);
}

// ALiBi's slopes, T5's buckets: numbers that are published.
TEST(Golden, OracleKnowsAlibisSlopes) {
  expect_near(oracle::alibi_slopes(6), {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125});
}
TEST(Golden, BucketsOfT5AreThePapers) {
  const auto bucket = [](Index n) { return oracle::T5Bias::bucket(n, 32, 128); };
  EXPECT_EQ(bucket(-3), 0);
  EXPECT_EQ(bucket(0), 0);
  EXPECT_EQ(bucket(15), 15);
  EXPECT_EQ(bucket(16), 16);
  EXPECT_EQ(bucket(18), 16);
  EXPECT_EQ(bucket(19), 17);
  EXPECT_EQ(bucket(64), 26);
  EXPECT_EQ(bucket(127), 31);
  EXPECT_EQ(bucket(128), 31);
  EXPECT_EQ(bucket(100000), 31);
  for (Index n = 0; n < 300; ++n) EXPECT_EQ(heed::t5_bucket(n, 32, 128), bucket(n)) << n;
}

}  // namespace
}  // namespace support

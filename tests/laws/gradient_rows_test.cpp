// SPDX-License-Identifier: Apache-2.0
//
// Gradients on chosen inputs: the golden vectors of CoPE, the rule at integers and at the clamp,
// rows that see nothing (R02), grouped heads (R29, R30), poison in what is hidden (C1 to C3), and
// relations that need no oracle (F7).

#include <heed/policy/absolute.hpp>

#include "support/gradients.hpp"

namespace support {
namespace {

using heed::causal;

heed::Cope cope_of(const std::vector<float>& table, Index dim, bool form_b = false) {
  return heed::Cope{heed::TableView(table.data(), 1, Index(table.size()) / dim, dim),
                    {.form = form_b ? heed::CopeForm::b : heed::CopeForm::a}};
}
void expect_near(const std::vector<float>& found, const std::vector<double>& expected,
                 double within = 2e-6) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(found[i]), expected[i], within) << "at " << i;
  }
}
std::vector<float> normal_upstream(const Extents& e, std::uint64_t seed) {
  Random random(seed);
  return normals(random, e.batch * e.heads * e.q_len * e.v_dim, 1);
}
void expect_all_finite(const std::vector<float>& x) {
  for (const float a : x) ASSERT_TRUE(std::isfinite(a));
}

// Worked out by hand for length 4, dim 2, three table rows; every dout is 1.
TEST(GoldenGradient, OfBothFormsOfCope) {
  World w({1, 1, 1, 4, 4, 2, 2}, Filling::equal, 0);
  w.data.q = {1, 0, 0, 1, 1, 1, 2, -1};
  w.data.k = {1, 1, -1, 2, 0, 1, 1, 0};
  w.data.v = {1, 0, 0, 1, 1, 1, -1, 1};
  const std::vector<float> table{0.5f, -0.5f, 1, 0, -1, 0.5f}, ones(8, 1.f);
  const std::vector<double> dq[] = {{0, 0, 0, 0, .252450, -.077685, -.210665, .019114},
                                    {0, 0, 0, 0, .172368, -.080240, -.223532, .045150}};
  const std::vector<double> dk[] = {
      {-.073171, -.073258, -.062282, -.066329, .221409, .249953, -.344998, .172499},
      {-.071501, -.087028, -.060958, -.062881, .233577, .194859, -.364302, .182151}};
  const std::vector<double> de[] = {{.026207, .106319, .073849, .069033, -.100056, -.175352},
                                    {.008103, .076776, .043998, .061366, -.052100, -.138141}};
  for (const int b : {0, 1}) {
    const auto found = felt(w, ones, heed::pack(causal, cope_of(table, 2, b == 1)));
    expect_near(found.q, dq[b]);
    expect_near(found.k, dk[b]);
    expect_near(numbers(found.parameters.of<heed::Cope>()), de[b]);
  }
}

// All gates 1/2, so every second position is an integer: there the slope is 0, elsewhere that of
// its cell. The oracle takes floor and ceiling literally.
TEST(SubGradient, IsZeroAtIntegers) {
  World w({1, 1, 1, 6, 6, 2, 2}, Filling::normal, 3);
  for (std::size_t i = 0; i < w.data.k.size(); i += 2) w.data.q[i + 1] = w.data.k[i] = 0;
  const std::vector<float> table{0, 0, 1, 0, 3, 0, 7, 0, 15, 0};
  oracle::Case c = w.oracle_case();
  Causal{}.describe(c);
  c.scores.push_back(oracle::Cope{.table = {1, 5, 2, doubles(table)}, .gate_keys = {}});
  Random random(4);
  const Upstream dout = upstream(w.shape, random);
  const auto pack = heed::pack(causal, cope_of(table, 2));
  const Verdict verdict = judge_gradients(w, c, dout, pack);
  EXPECT_TRUE(verdict.passed()) << verdict.where;
  // Only positions at halves feel anything: with the first row alone (p = 1/2) the slope is 1, with
  // two keys (p = 1/2 and 1) the older key's is 0.
  const auto right = oracle::attend<double>(c).positions;
  EXPECT_EQ(right(0, 0, 1, 0), 1.0);
  EXPECT_EQ(right(0, 0, 1, 1), 0.5);
}
// Gates of exactly 1: position i - j + 1 reaches N - 1 = 2 exactly, then stays above it.
TEST(SubGradient, IsZeroAtAndBeyondTheClamp) {
  World w({1, 1, 1, 5, 5, 1, 1}, Filling::normal, 5);
  w.data.q = {40, 40, 40, 40, 40};
  w.data.k = {1, 1.01f, 1.02f, 1.01f, 1};
  const std::vector<float> table{0.1f, 0.2f, -0.3f}, ones(5, 1.f);
  const auto found = felt(w, ones, heed::pack(causal, cope_of(table, 1)));
  // Without the gates' part dk is that of plain attention with the bias added.
  const auto bias = RowMajor::NullaryExpr(5, 5, [](Index i, Index j) {
    const float z[] = {40 * 0.1f, 40 * 0.2f, 40 * -0.3f};
    return i < j ? 0.f : z[std::min<Index>(i - j + 1, 2)];
  }).eval();
  const auto plain = felt(w, ones, heed::pack(causal, heed::Bias{bias}));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(found.k[i], plain.k[i], 1e-4f * (1 + std::abs(plain.k[i])));
  }
}

// R02: row 1 sees nothing. It changes no gradient, whatever its dout, and gets none.
template <class Policy>
void expect_empty_row_is_absent(const Policy& policy) {
  World w({1, 1, 1, 4, 4, 2, 2}, Filling::normal, 6);
  bool keep[16];
  for (Index i = 0; i < 16; ++i) keep[i] = i / 4 != 1 && i % 4 <= i / 4;
  const heed::DenseMask dense{heed::View<const bool>(keep, {1, 1, 4, 4})};
  const auto pack = heed::pack(causal & dense, policy);
  std::vector<float> dout = normal_upstream(w.shape, 7);
  dout[2] = dout[3] = 0;
  const auto zero = felt(w, dout, pack);
  for (const std::vector<float>* x : {&zero.q, &zero.k, &zero.v}) expect_all_finite(*x);
  EXPECT_EQ(zero.q[2], 0.f);
  EXPECT_EQ(zero.q[3], 0.f);
  constexpr auto all = std::make_index_sequence<2>{};
  for (const float by : {1e30f, std::numeric_limits<float>::quiet_NaN()}) {
    dout[2] = dout[3] = by;
    const auto large = felt(w, dout, pack);
    EXPECT_TRUE(same_gradient_bits(zero, large));
    EXPECT_TRUE(same_parameters(zero.parameters, large.parameters, all));
    World other = w;
    other.data.q[2] = other.data.q[3] = by;
    const auto changed = felt(other, dout, pack);
    EXPECT_TRUE(same_gradient_bits(zero, changed));
    EXPECT_TRUE(same_parameters(zero.parameters, changed.parameters, all));
  }
  // Without the row: keys 0, 2 and 3 as before, rows 0, 2 and 3 at their positions.
  World shorter({1, 1, 1, 3, 4, 2, 2}, Filling::equal, 0);
  shorter.data = w.data;
  shorter.data.q.erase(shorter.data.q.begin() + 2, shorter.data.q.begin() + 4);
  dout.erase(dout.begin() + 2, dout.begin() + 4);
  const std::vector<Index> rows{0, 2, 3}, keys{0, 1, 2, 3};
  const auto without = felt(shorter, dout, heed::pack(causal, policy,
                                                      heed::Positions{.q = rows, .k = keys}));
  EXPECT_TRUE(same_bits(zero.k, without.k));
  EXPECT_TRUE(same_bits(zero.v, without.v));
  EXPECT_EQ(zero.q[0], without.q[0]);
  EXPECT_TRUE(
      same_bits({zero.q.begin() + 4, zero.q.end()}, {without.q.begin() + 2, without.q.end()}));
}
TEST(GradientRows, R02EmptyRowIsAbsent) {
  const std::vector<float> table{0.5f, -0.5f, 1, 0, -1, 0.5f};
  expect_empty_row_is_absent(heed::SoftCap{3});
  expect_empty_row_is_absent(cope_of(table, 2, true));
  expect_empty_row_is_absent(cope_of(table, 2).value_gates());
  const std::vector<float> gate_keys{1, -1, 0.5f, 2, -1, 0.3f, 0.2f, 1};
  expect_empty_row_is_absent(cope_of(table, 2).gate_keys({gate_keys.data(), {1, 1, 4, 2}}));
  expect_empty_row_is_absent(heed::Relative{heed::TableView(table.data(), 1, 3, 2)});
}
// Queries that outnumber the keys: the first rows see nothing at all (R14).
TEST(GradientRows, MoreQueriesThanKeys) {
  const World w({1, 2, 1, 5, 2, 3, 3}, Filling::normal, 8);
  const auto found = felt(w, normal_upstream(w.shape, 9), heed::pack(causal));
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(found.q[i], 0.f);
  for (const std::vector<float>* x : {&found.q, &found.k, &found.v}) expect_all_finite(*x);
}

oracle::Case plain_case(const World& w) {
  oracle::Case c = w.oracle_case();
  Causal{}.describe(c);
  return c;
}
TEST(GradientRows, R29AsManyKvHeadsAsTimeSteps) {
  const World w({1, 4, 2, 2, 2, 5, 5}, Filling::normal, 10);
  Random random(11);
  const Verdict v =
      judge_gradients(w, plain_case(w), upstream(w.shape, random), heed::pack(causal));
  EXPECT_TRUE(v.passed()) << v.where;
}
TEST(GradientRows, R30GroupedHeadsAddUp) {
  for (const Index len : {5, 70}) {
    const World w({2, 6, 2, len, len, 7, 7}, Filling::normal, 12);
    World copied({2, 6, 6, len, len, 7, 7}, Filling::equal, 0);
    copied.data.q = w.data.q;
    const std::size_t part = size(len * 7);
    for (std::size_t h = 0; h < 12; ++h) {
      const auto from = std::ptrdiff_t(h / 3 * part), to = std::ptrdiff_t(h * part);
      const auto n = std::ptrdiff_t(part);
      std::copy_n(w.data.k.begin() + from, n, copied.data.k.begin() + to);
      std::copy_n(w.data.v.begin() + from, n, copied.data.v.begin() + to);
    }
    const std::vector<float> dout = normal_upstream(w.shape, 13);
    const auto grouped = felt(w, dout, heed::pack(causal));
    const auto each = felt(copied, dout, heed::pack(causal));
    for (std::size_t i = 0; i < grouped.q.size(); ++i) {
      ASSERT_NEAR(grouped.q[i], each.q[i], 1e-5f);
    }
    for (std::size_t i = 0; i < grouped.k.size(); ++i) {
      double dk = 0, dv = 0;
      for (std::size_t h = 0; h < 3; ++h) {
        const std::size_t at = (i / part * 3 + h) * part + i % part;
        dk += static_cast<double>(each.k[at]);
        dv += static_cast<double>(each.v[at]);
      }
      ASSERT_NEAR(grouped.k[i], dk, 1e-5 * (1 + std::abs(dk)));
      ASSERT_NEAR(grouped.v[i], dv, 1e-5 * (1 + std::abs(dv)));
    }
  }
}

// C2: what nobody may see has no influence, bit for bit. C3: what a row sees poisons that row's dq
// and what that row sees, nothing else.
template <class MakePack>
void expect_hidden_is_absent(const Extents& e, const MakePack& make, Index gate_size = 0) {
  const World clean(e, Filling::normal, 14);
  Random random(15);
  // Key 3 is seen by nobody, and with the window old keys are not seen by late rows.
  const heed::DenseMask dense = [&] {
    static std::vector<char> memory;
    memory.assign(size(e.q_len * e.kv_len), 1);
    for (Index i = 0; i < e.q_len; ++i) memory[size(i * e.kv_len + 3)] = 0;
    return heed::DenseMask(heed::View<const bool>(reinterpret_cast<const bool*>(memory.data()),
                                                  {1, 1, e.q_len, e.kv_len}));
  }();
  std::vector<float> gate_keys = normals(random, gate_size, 1);
  std::vector<float> dout = normal_upstream(e, 16);
  const auto pack = make(dense, gate_keys);
  const auto before = felt(clean, dout, pack);
  expect_all_finite(before.k);
  constexpr auto all = std::make_index_sequence<decltype(before.parameters)::kSize>{};
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY, 1e38f}) {
    World w = clean;
    for (Index head = 0; head < e.batch * e.kv_heads; ++head) {
      const Index at = head * e.kv_len + 3;
      std::fill_n(w.data.k.begin() + at * e.dim, e.dim, poison);
      std::fill_n(w.data.v.begin() + at * e.v_dim, e.v_dim, poison);
      if (gate_size > 0) std::fill_n(gate_keys.begin() + at * e.dim, e.dim, poison);
    }
    const auto after = felt(w, dout, pack);
    EXPECT_TRUE(same_gradient_bits(before, after)) << poison;
    EXPECT_TRUE(same_parameters(before.parameters, after.parameters, all)) << poison;
    for (Index head = 0; head < e.batch * e.kv_heads; ++head) {
      for (Index d = 0; d < e.dim; ++d) {
        EXPECT_EQ(after.k[size((head * e.kv_len + 3) * e.dim + d)], 0.f);
      }
    }
  }
  // A visible NaN in the query or the dout of the first row that sees key 0 only.
  const Index row = 0;
  for (const bool in_query : {true, false}) {
    World w = clean;
    std::vector<float> up = dout;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    if (in_query) {
      w.data.q[size(row * e.dim)] = nan;
    } else {
      up[size(row * e.v_dim)] = nan;
    }
    const auto after = felt(w, up, pack);
    EXPECT_TRUE(std::isnan(after.q[0]));
    EXPECT_TRUE(same_bits({before.q.begin() + e.dim, before.q.end()},
                          {after.q.begin() + e.dim, after.q.end()}));
    const Index first_seen = e.kv_len - e.q_len + 1;   // keys from here on are hidden from row 0
    for (Index j = first_seen; j < e.kv_len; ++j) {
      for (Index d = 0; d < e.dim; ++d) {
        ASSERT_FALSE(std::isnan(after.k[size(j * e.dim + d)])) << j;
        ASSERT_FALSE(std::isnan(after.v[size(j * e.v_dim + std::min(d, e.v_dim - 1))])) << j;
      }
    }
  }
}
TEST(GradientRows, C2AndC3) {
  const std::vector<float> table = [] {
    Random r(17);
    return normals(r, 9 * 5, 0.5);
  }();
  const heed::TableView view(table.data(), 1, 9, 5);
  for (const Extents& e : {Extents{1, 2, 1, 8, 8, 5, 5}, {2, 1, 1, 100, 130, 5, 5}}) {
    expect_hidden_is_absent(e, [](const auto& m, const auto&) { return heed::pack(causal & m); });
    expect_hidden_is_absent(e, [&](const auto& m, const auto&) {
      return heed::pack(causal & m, heed::Relative{view}, heed::SoftCap{4});
    });
    expect_hidden_is_absent(
        e, [&](const auto& m, const auto&) { return heed::pack(causal & m, heed::Cope{view}); });
    expect_hidden_is_absent(e, [&](const auto& m, const auto&) {
      return heed::pack(causal & m, heed::Cope{view, {.form = heed::CopeForm::b}}.value_gates());
    });
    expect_hidden_is_absent(
        e,
        [&](const auto& m, const std::vector<float>& keys) {
          return heed::pack(causal & m, heed::Cope{view}.gate_keys(heed::View<const float>(
                                            keys.data(), {e.batch, e.kv_heads, e.kv_len, e.dim})));
        },
        e.batch * e.kv_heads * e.kv_len * e.dim);
  }
}

// F7, and the identities of F5.
TEST(GradientRelations, LinearInDout) {
  const World w({1, 4, 2, 70, 90, 6, 6}, Filling::normal, 18);
  const std::vector<float> table = normals(*std::make_unique<Random>(19), 9 * 6, 0.5);
  const auto pack = heed::pack(causal, heed::Cope{heed::TableView(table.data(), 1, 9, 6)});
  std::vector<float> a = normal_upstream(w.shape, 20), b = normal_upstream(w.shape, 21), sum = a;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  std::vector<float> doubled = a;
  for (float& x : doubled) x *= 2;
  const auto of_a = felt(w, a, pack), of_b = felt(w, b, pack), of_sum = felt(w, sum, pack);
  auto twice = felt(w, doubled, pack);
  for (auto* x : {&twice.q, &twice.k, &twice.v}) {
    for (float& y : *x) y /= 2;
  }
  EXPECT_TRUE(same_gradient_bits(of_a, twice));   // powers of two are exact
  for (std::size_t i = 0; i < of_a.q.size(); ++i) {
    ASSERT_NEAR(of_a.q[i] + of_b.q[i], of_sum.q[i], 2e-5f);
  }
  for (std::size_t i = 0; i < of_a.k.size(); ++i) {
    ASSERT_NEAR(of_a.k[i] + of_b.k[i], of_sum.k[i], 1e-4f);
  }
  const std::vector<float> nothing(a.size(), 0.f);
  const auto zero = felt(w, nothing, pack);
  for (const auto* x : {&zero.q, &zero.k, &zero.v}) {
    for (const float y : *x) ASSERT_EQ(y, 0.f);
  }
}
TEST(GradientRelations, FutureKeysFeelNothing) {
  const World w({1, 2, 1, 130, 130, 5, 5}, Filling::normal, 22);
  const std::vector<float> table = normals(*std::make_unique<Random>(23), 9 * 5, 0.5);
  for (const Index row : {0, 1, 63, 64, 65, 100}) {
    std::vector<float> dout(size(2 * 130 * 5), 0.f);
    for (Index h = 0; h < 2; ++h) {
      for (Index d = 0; d < 5; ++d) dout[size((h * 130 + row) * 5 + d)] = 1;
    }
    const auto found =
        felt(w, dout, heed::pack(causal, heed::Cope{heed::TableView(table.data(), 1, 9, 5)}));
    for (Index j = row + 1; j < 130; ++j) {
      for (Index d = 0; d < 5; ++d) {
        ASSERT_EQ(found.k[size(j * 5 + d)], 0.f);
        ASSERT_EQ(found.v[size(j * 5 + d)], 0.f);
      }
    }
    EXPECT_NE(found.v[size(row * 5)], 0.f);
  }
}
TEST(GradientRelations, RowsOfTheLogitsAdjointSumToZero) {
  const World w({2, 2, 1, 70, 80, 6, 6}, Filling::normal, 24);
  const RowMajor bias = RowMajor::Zero(70, 80);
  const auto found = felt(w, normal_upstream(w.shape, 25), heed::pack(causal, heed::Bias{bias}));
  const heed::BiasGradient& ds = found.parameters.of<heed::Bias>();
  double most = 0;
  for (Index i = 0; i < 70; ++i) {
    double sum = 0, size = 0;
    for (Index j = 0; j < 80; ++j) {
      sum += static_cast<double>(ds(0, 0, i, j));
      size += std::abs(static_cast<double>(ds(0, 0, i, j)));
      if (j > i + 10) {
        ASSERT_EQ(ds(0, 0, i, j), 0.f);
      }
    }
    EXPECT_NEAR(sum, 0, 1e-6 * (1 + size));
    most = std::max(most, size);
  }
  EXPECT_GT(most, 0.1);
}
TEST(GradientRelations, ValuesCollectWhatRowsSend) {
  const World w({1, 2, 1, 70, 80, 6, 6}, Filling::normal, 26);
  const std::vector<float> dout = normal_upstream(w.shape, 27);
  const auto found = felt(w, dout, heed::pack(causal));
  for (Index d = 0; d < 6; ++d) {
    double sent = 0, collected = 0;
    for (Index i = 0; i < 140; ++i) sent += static_cast<double>(dout[size(i * 6 + d)]);
    for (Index j = 0; j < 80; ++j) collected += static_cast<double>(found.v[size(j * 6 + d)]);
    EXPECT_NEAR(sent, collected, 1e-4);
  }
}
TEST(GradientRelations, AShiftOfAllLogitsChangesNothing) {
  const World w({1, 1, 1, 70, 70, 6, 6}, Filling::normal, 28);
  const std::vector<float> dout = normal_upstream(w.shape, 29);
  const auto plain = felt(w, dout, heed::pack(causal));
  const auto shift = heed::pointwise([](float x) { return x + 2; }, [](float) { return 1.f; });
  const auto shifted = felt(w, dout, heed::pack(causal, shift));
  for (std::size_t i = 0; i < plain.k.size(); ++i) ASSERT_NEAR(plain.k[i], shifted.k[i], 2e-5f);
}
TEST(GradientRelations, ACopyOfTheBatchDoublesWhatIsShared) {
  const World one({1, 2, 1, 40, 40, 5, 5}, Filling::normal, 30);
  World two({2, 2, 1, 40, 40, 5, 5}, Filling::equal, 0);
  const auto copied = [](const std::vector<float>& x) {
    std::vector<float> y = x;
    y.insert(y.end(), x.begin(), x.end());
    return y;
  };
  two.data = {copied(one.data.q), copied(one.data.k), copied(one.data.v)};
  const std::vector<float> table = normals(*std::make_unique<Random>(31), 9 * 5, 0.5);
  const std::vector<float> dout = normal_upstream(one.shape, 32);
  const auto pack = heed::pack(causal, heed::Relative{heed::TableView(table.data(), 1, 9, 5)});
  const auto a = felt(one, dout, pack);
  const auto b = felt(two, copied(dout), pack);
  EXPECT_TRUE(same_bits(copied(a.k), b.k));
  const auto single = numbers(a.parameters.of<heed::Relative>());
  const auto both = numbers(b.parameters.of<heed::Relative>());
  // The row ranges that a job's sums are cut into depend on the shape.
  for (std::size_t i = 0; i < single.size(); ++i) {
    EXPECT_NEAR(2 * single[i], both[i], 1e-5f * (1 + std::abs(both[i])));
  }
}

// Law 7: rows that get no dout, whatever their queries and gates, change no bit of the others'
// gradients, nor of what is shared. Small gates move slowly through the table, large ones fast.
TEST(GradientRelations, RowsDoNotTouchEachOther) {
  const World clean({1, 2, 1, 130, 130, 6, 6}, Filling::normal, 38);
  Random random(39);
  const std::vector<float> table = normals(random, 40 * 6, 0.5);
  std::vector<float> dout = normal_upstream(clean.shape, 40);
  std::vector<char> silent(260);
  for (std::size_t row = 0; row < silent.size(); ++row) {
    silent[row] = random.chance(0.6);
    if (silent[row]) std::fill_n(dout.begin() + std::ptrdiff_t(row * 6), 6, 0.f);
  }
  const heed::TableView view(table.data(), 1, 40, 6);
  const auto check = [&](const auto& pack) {
    const auto before = felt(clean, dout, pack);
    for (const double by : {0.0, 0.5, 4.0, 30.0}) {
      World w = clean;
      for (std::size_t row = 0; row < silent.size(); ++row) {
        for (std::size_t d = 0; silent[row] && d < 6; ++d) {
          w.data.q[row * 6 + d] = static_cast<float>(by * random.normal() - by);
        }
      }
      const auto after = felt(w, dout, pack);
      for (std::size_t row = 0; row < silent.size(); ++row) {
        const auto at = std::ptrdiff_t(row * 6);
        if (silent[row]) continue;
        ASSERT_TRUE(same_bits({before.q.begin() + at, before.q.begin() + at + 6},
                              {after.q.begin() + at, after.q.begin() + at + 6})) << row;
      }
      for (std::size_t i = 0; i < before.k.size(); ++i) ASSERT_EQ(before.k[i], after.k[i]) << by;
      for (std::size_t i = 0; i < before.v.size(); ++i) ASSERT_EQ(before.v[i], after.v[i]) << by;
      const auto a = numbers(before.parameters.template at<1>());
      const auto b = numbers(after.parameters.template at<1>());
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << by;
    }
  };
  check(heed::pack(causal, heed::Cope{view}));
  check(heed::pack(causal, heed::Cope{view}.value_gates()));
  check(heed::pack(causal, heed::Relative{view}));
}

// Factors that are not folded, in real packs.
TEST(GradientRows, AFactorAfterCope) {
  Index checked = 0;
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const World w({1, 4, 2, 20, 20, 6, 6}, Filling::normal, seed);
    Random random(seed + 50);
    const Described<Causal, Coped<false, true>, HeadScaled> after(w, seed + 90);
    const oracle::Case c = after.describe(w);
    if (at_a_jump(c)) continue;
    ++checked;
    const Verdict v = judge_gradients(w, c, upstream(w.shape, random), after.policy(w.whole()));
    EXPECT_TRUE(v.passed()) << v.where;
  }
  EXPECT_GT(checked, 4);
}
TEST(GradientRows, TemperaturesFeelTheInverse) {
  const World w({1, 2, 1, 9, 9, 4, 4}, Filling::normal, 36);
  const std::vector<float> t{0.5f, 2}, c{2, 0.5f}, dout = normal_upstream(w.shape, 37);
  const auto of_t = felt(w, dout, heed::pack(causal, heed::HeadScale::from_temperatures(t)));
  const auto of_c = felt(w, dout, heed::pack(causal, heed::HeadScale{c}));
  for (Index h = 0; h < 2; ++h) {
    const double dt = of_t.parameters.of<heed::HeadScale>().values[size(h)];
    const double dc = of_c.parameters.of<heed::HeadScale>().values[size(h)];
    EXPECT_NEAR(dt, -dc / static_cast<double>(t[size(h)] * t[size(h)]), 1e-6);
  }
}
TEST(GradientRows, PositionsAddedToTheInput) {
  RowMajor dx = RowMajor::Random(4, 3), d_table = RowMajor::Zero(9, 3);
  heed::add_positions_adjoint(dx, d_table, 2);
  heed::add_positions_adjoint(dx, d_table, 2);
  EXPECT_EQ(d_table.topRows(2).norm(), 0.f);
  EXPECT_EQ(d_table.middleRows(2, 4), 2 * dx);
  EXPECT_EQ(d_table.bottomRows(3).norm(), 0.f);
  EXPECT_THROW(heed::add_positions_adjoint(dx, d_table, 6), std::invalid_argument);
}

}  // namespace
}  // namespace support

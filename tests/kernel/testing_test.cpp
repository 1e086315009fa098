// SPDX-License-Identifier: Apache-2.0

#include "heed/testing.hpp"

#include <gtest/gtest.h>

#include "heed/heed.hpp"

namespace heed {
namespace {

using testing::check_gradient;
using testing::expect_gradient;
using testing::GradientCase;
using testing::Report;

TEST(CheckGradient, PassesWhatIsRight) {
  for (const Report& report :
       {check_gradient(causal), check_gradient(pack(causal, SoftCap{2})),
        check_gradient(pack(causal, pointwise([](float x) { return x + 0.3f * x * x; },
                                              [](float x) { return 1 + 0.6f * x; })))}) {
    EXPECT_TRUE(report.ok) << report.text;
    EXPECT_NE(report.text.find("agree"), std::string::npos);
    EXPECT_LT(report.worst, 1);
  }
}

TEST(CheckGradient, SeesAWrongDerivative) {
  const auto wrong = pointwise([](float x) { return std::sin(x); },
                               [](float x) { return 1.1f * std::cos(x); });
  const Report report = check_gradient(pack(causal, wrong));
  EXPECT_FALSE(report.ok);
  EXPECT_NE(report.text.find("the gradient of q is not the derivative"), std::string::npos)
      << report.text;
  EXPECT_GT(report.worst, 1);
  try {
    expect_gradient(pack(causal, wrong));
    FAIL() << "expect_gradient let a wrong derivative through";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(report.text, e.what());
  }
}

// x + a[head] x^2, written out by hand.
struct Curved {
  const std::vector<float>& a;
  double wrong = 1;

  void forward(const Tile& tile) const {
    for (Index j = 0; j < tile.keys.count; ++j) {
      auto x = tile.logits.column(j);
      for (Index lane = 0; lane < tile.rows.count; ++lane) {
        x[lane] += a[std::size_t(tile.rows.head[lane])] * x[lane] * x[lane];
      }
    }
  }
  NumbersGradient zero(const Shape& shape) const { return NumbersGradient(shape.heads); }
  void backward(const Tile& tile, Adjoint& adjoint, NumbersGradient& gradient) const {
    for (Index j = 0; j < tile.keys.count; ++j) {
      const auto x = tile.logits.column(j);
      auto d = adjoint.logits.column(j);
      for (Index lane = 0; lane < tile.rows.count; ++lane) {
        if (d[lane] == 0) continue;   // hidden, or of no weight
        const Index head = tile.rows.head[lane];
        gradient[head] += wrong * double{d[lane]} * double{x[lane]} * double{x[lane]};
        d[lane] *= 1 + 2 * a[std::size_t(head)] * x[lane];
      }
    }
  }
};

TEST(CheckGradient, SeesTheParametersToo) {
  const auto read = [](const auto& gradients) {
    const auto& values = gradients.template of<Curved>().values;
    return std::vector<float>(values.begin(), values.end());
  };
  for (const GradientCase& c : {GradientCase{}, GradientCase{.batch = 2, .heads = 4, .kv_heads = 2,
                                                             .q_len = 7, .kv_len = 9, .dim = 5}}) {
    const std::vector<float> a{0.1f, -0.2f, 0.3f, 0.05f};
    const std::vector<float> few(a.begin(), a.begin() + c.heads);
    const Report right = check_gradient(
        few, [](const std::vector<float>& x) { return pack(causal, Curved{x}); }, read, c);
    EXPECT_TRUE(right.ok) << right.text;
    const Report wrong = check_gradient(
        few, [](const std::vector<float>& x) { return pack(causal, Curved{x, 1.05}); }, read, c);
    EXPECT_FALSE(wrong.ok);
    EXPECT_NE(wrong.text.find("the gradient of the parameters"), std::string::npos) << wrong.text;
  }
}

TEST(CheckGradient, ForgivesKinks) {
  std::vector<float> table(9 * 8);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = float(i % 7) / 7 - 0.4f;
  const Report report = check_gradient(
      table,
      [](const std::vector<float>& t) { return pack(causal, Cope{TableView(t.data(), 1, 9, 8)}); },
      [](const auto& gradients) {
        const auto& g = gradients.template of<Cope>();
        std::vector<float> all;
        for (Index n = 0; n < 9; ++n) {
          for (Index d = 0; d < 8; ++d) all.push_back(g.table()(n, d));
        }
        return all;
      });
  EXPECT_TRUE(report.ok) << report.text;
}

TEST(CheckGradient, SaysWhatIsMissing) {
  const Report report = check_gradient(
      {1, 2}, [](const std::vector<float>& c) { return HeadScale{c}; },
      [](const auto&) { return std::vector<float>(3); });
  EXPECT_FALSE(report.ok);
  EXPECT_NE(report.text.find("2 numbers and its gradient 3"), std::string::npos) << report.text;
}

}  // namespace
}  // namespace heed

// SPDX-License-Identifier: Apache-2.0
//
// The decoder: a tiny random model against plain loops in double, and SmolLM2 against what
// `transformers` computed from the same file (tests/reference/lm_fixture.json). The latter is
// skipped where the model is not there; examples/lm/fetch_model.sh fetches it.

#include "model.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "default_model.hpp"
#include "sampler.hpp"
#include "score.hpp"
#include "tiny_model.hpp"
#include "tokenizer.hpp"

namespace lm {
namespace {

const std::vector<int> kTokens{3, 0, 7, 7, 1, 10, 4, 2, 9, 5, 3};

Matrix all_logits(const Model& model, std::span<const int> tokens, Observer* observer = nullptr) {
  KvCache cache = model.new_cache();
  return model.logits(model.forward(tokens, cache, observer));
}

float difference(const Matrix& a, const Matrix& b) { return (a - b).cwiseAbs().maxCoeff(); }

TEST(Model, EqualsPlainLoopsInDouble) {
  for (const bool tied : {true, false}) {
    const Weights weights = tiny_weights(tied);
    const Threads threads(1);
    const Matrix found = all_logits(Model(weights, threads), kTokens);
    EXPECT_LT(difference(found, plain_logits(weights, kTokens).cast<float>()), 2e-5f);
    EXPECT_GT(found.cwiseAbs().maxCoeff(), 0.3f);
  }
}

TEST(Model, ReadsInPiecesAsInOne) {
  const Threads threads(1);
  const Model model(tiny_weights(true), threads);
  const Matrix whole = all_logits(model, kTokens);
  KvCache cache = model.new_cache();
  const std::span<const int> tokens(kTokens);
  Matrix pieces(whole.rows(), whole.cols());
  pieces.topRows(4) = model.logits(model.forward(tokens.first(4), cache));
  for (Index i = 4; i < whole.rows(); ++i) {
    pieces.row(i) = model.logits(model.forward(tokens.subspan(std::size_t(i), 1), cache));
  }
  EXPECT_LT(difference(whole, pieces), 2e-6f);
  EXPECT_EQ(cache.tokens(), whole.rows());
}

TEST(Model, ThreadsDoNotChangeBits) {
  const Threads one(1), three(3);
  Model model(tiny_weights(true), one);
  const Matrix a = all_logits(model, kTokens);
  model.run_on(three);
  EXPECT_TRUE(a == all_logits(model, kTokens));
}

TEST(Model, ObserverGetsWeightsAndTheirEntropy) {
  const Threads threads(1);
  const Model model(tiny_weights(true), threads);
  const Index n = Index(kTokens.size()), heads = model.config().heads;
  std::vector<float> weights(std::size_t(heads * n * n)), entropy(std::size_t(heads * n));
  Observer observer;
  observer.before = [&](Index layer, heed::Into& into) {
    if (layer != 1) return;
    into.weights.to = heed::View<float>(weights.data(), {1, heads, n, n});
    into.entropy = heed::RowView(entropy.data(), {1, heads, n});
  };
  const Matrix watched = all_logits(model, kTokens, &observer);
  EXPECT_TRUE(watched == all_logits(model, kTokens));
  for (Index row = 0; row < heads * n; ++row) {
    double sum = 0, wanted = 0;
    for (Index key = 0; key < n; ++key) {
      const double w = double(weights[std::size_t(row * n + key)]);
      sum += w;
      if (w > 0) wanted -= w * std::log(w);
      if (key > row % n) {
        EXPECT_EQ(w, 0);
      }
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    EXPECT_NEAR(double(entropy[std::size_t(row)]), wanted, 1e-5);
  }
}

TEST(Model, RefusesUnknownTokensAndTooManyOfThem) {
  const Threads threads(1);
  const Model model(tiny_weights(true), threads);
  KvCache cache = model.new_cache();
  for (const int id : {-1, 11}) EXPECT_THROW(model.forward({&id, 1}, cache), Error);
  const std::vector<int> many(std::size_t(model.config().context + 1), 0);
  EXPECT_THROW(model.forward(many, cache), Error);
  EXPECT_EQ(cache.tokens(), 0);
  EXPECT_THROW(model.next_logits({}, cache), Error);
}

TEST(Model, SaysThatWeightsAreDamaged) {
  Weights weights = tiny_weights(true);
  weights.layers[1].up(3, 4) = NAN;
  const Threads threads(1);
  const Model model(std::move(weights), threads);
  KvCache cache = model.new_cache();
  EXPECT_THROW(model.next_logits(kTokens, cache), Error);
}

// ------------------------------------------------------------------------------------- SmolLM2
class SmolLm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!std::filesystem::exists(default_model())) return;
    const Gguf file = Gguf::open(default_model().string());
    tokenizer = std::make_unique<Tokenizer>(file);
    threads = std::make_unique<Threads>(2);
    model = std::make_unique<Model>(load(file), *threads);
    const auto here = std::filesystem::path(__FILE__).parent_path();
    std::ifstream in(here / "../reference/lm_fixture.json");
    fixture = nlohmann::json::parse(in);
  }
  static void TearDownTestSuite() { model.reset(), tokenizer.reset(), threads.reset(); }
  void SetUp() override {
    if (model == nullptr) {
      GTEST_SKIP() << "NOT TESTED: there is no model at " << default_model()
                   << "; examples/lm/fetch_model.sh fetches it";
    }
  }

  inline static std::unique_ptr<Tokenizer> tokenizer;
  inline static std::unique_ptr<Threads> threads;
  inline static std::unique_ptr<Model> model;
  inline static nlohmann::json fixture;
};

TEST_F(SmolLm, LikeliestTokensAndLogitsOfTransformers) {
  ASSERT_FALSE(fixture["prompts"].empty());
  double worst = 0;
  for (const auto& prompt : fixture["prompts"]) {
    const auto ids = prompt["ids"].get<std::vector<int>>();
    KvCache cache = model->new_cache();
    const auto top = likeliest(model->next_logits(ids, cache), 5);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(top[i].id, prompt["top"][i].get<int>()) << prompt["text"] << " at " << i;
      const double wanted = prompt["logits"][i].get<double>();
      EXPECT_NEAR(double(top[i].logit), wanted, 1e-3) << prompt["text"] << " at " << i;
      worst = std::max(worst, std::abs(double(top[i].logit) - wanted));
    }
  }
  RecordProperty("largest_difference", std::to_string(worst));
}

TEST_F(SmolLm, PerplexityOfAPageOfTransformers) {
  const auto& page = fixture["page"];
  std::ifstream in(page["file"].get<std::string>(), std::ios::binary);
  if (!in) GTEST_SKIP() << "NOT TESTED: there is no " << page["file"];
  std::string text(page["bytes"].get<std::size_t>(), '\0');
  in.read(text.data(), std::streamsize(text.size()));
  const std::vector<int> ids = tokenizer->encode(text, false);
  ASSERT_EQ(ids.size(), page["tokens"].get<std::size_t>());
  KvCache cache = model->new_cache();
  Score score;
  score_text(*model, ids, cache, score);
  const double wanted = std::exp(page["nll"].get<double>());
  EXPECT_NEAR(score.perplexity(), wanted, 1e-3 * wanted);
  RecordProperty("perplexity", std::to_string(score.perplexity()));
}

TEST_F(SmolLm, OneTokenAtATimeAsInOnePiece) {
  const auto ids = tokenizer->encode("The quick brown fox jumps over the lazy dog.", false);
  KvCache whole = model->new_cache(), steps = model->new_cache();
  const Matrix wanted = model->next_logits(ids, whole);
  Matrix found;
  for (const int id : ids) found = model->next_logits({&id, 1}, steps);
  EXPECT_LT(difference(found, wanted), 1e-3f);
}

}  // namespace
}  // namespace lm

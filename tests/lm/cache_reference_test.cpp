// SPDX-License-Identifier: Apache-2.0
//
// Bounded caches in SmolLM2, against plain loops around `transformers` on the same file: which
// tokens each layer and kv head keeps of a page, and the logits that follow from them
// (tests/reference/cache_fixture.json, which make_cache_fixture.py wrote). Skipped without the
// model.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "default_model.hpp"
#include "model.hpp"

namespace lm {
namespace {

// "1-3 7" as 1, 2, 3, 7.
std::vector<Index> positions_of(const std::string& ranges) {
  std::vector<Index> positions;
  std::istringstream parts(ranges);
  for (std::string part; parts >> part;) {
    const Index first = std::stol(part), dash = Index(part.find('-'));
    const Index last = dash < 0 ? first : std::stol(part.substr(std::size_t(dash + 1)));
    for (Index p = first; p <= last; ++p) positions.push_back(p);
  }
  return positions;
}

class SmolLmCaches : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!std::filesystem::exists(default_model())) return;
    const Gguf file = Gguf::open(default_model().string());
    threads = std::make_unique<Threads>(1);
    model = std::make_unique<Model>(load(file), *threads);
    std::ifstream in(std::filesystem::path(__FILE__).parent_path() /
                     "../reference/cache_fixture.json");
    fixture = nlohmann::json::parse(in);
  }
  static void TearDownTestSuite() { model.reset(), threads.reset(); }
  void SetUp() override {
    if (model == nullptr) {
      GTEST_SKIP() << "NOT TESTED: there is no model at " << default_model()
                   << "; examples/lm/fetch_model.sh fetches it";
    }
  }

  // Reads the page as the run of this name did and compares at each of its states.
  void follow(const std::string& name, bool one_shot) {
    const auto& runs = fixture.at("runs");
    const auto run = std::find_if(runs.begin(), runs.end(), [&](const auto& r) {
      return r.at("cache") == name && r.at("one_shot") == one_shot;
    });
    ASSERT_NE(run, runs.end());
    CacheChoice choice = CacheChoice::parse(name);
    choice.prompt = one_shot ? heed::Prefill::one_shot : heed::Prefill::stepwise;
    KvCache cache = model->new_cache(choice);
    const auto ids = fixture.at("ids").get<std::vector<int>>();
    const std::span<const int> page(ids);
    const auto prompt = fixture.at("prompt").get<std::size_t>();
    Matrix logits = model->next_logits(page.first(prompt), cache);
    for (const auto& state : run->at("states")) {
      while (cache.tokens() < state.at("tokens").get<Index>()) {
        logits = model->next_logits(page.subspan(std::size_t(cache.tokens()), 1), cache);
      }
      ASSERT_EQ(cache.tokens(), state.at("tokens").get<Index>());
      if (!compare_sets(cache, state, run->at("close"))) tolerance = 0.5;
      compare_logits(logits, state);
    }
    EXPECT_EQ(cache.tokens(), Index(ids.size()));
    EXPECT_EQ(run->at("states").size(), 9u);
    // A close decision turned around changes a few sets and some logits by up to 0.2 (tried); it is
    // no excuse for more.
    EXPECT_GE(exact, compared * 3 / 4);
    RecordProperty("sets", std::to_string(compared));
    RecordProperty("exact", std::to_string(exact));
    RecordProperty("largest_difference", std::to_string(worst));
  }

  // Whether all sets are those of the state. A set may be another one only where a close decision
  // was made before, in its layer or in one below.
  bool compare_sets(const KvCache& cache, const nlohmann::json& state,
                    const nlohmann::json& close) {
    const auto& layers = state.at("kept");
    EXPECT_EQ(Index(layers.size()), model->layers());
    bool all_same = true;
    for (Index layer = 0; layer < model->layers(); ++layer) {
      const auto& banks = layers.at(std::size_t(layer));
      const bool excused = std::any_of(close.begin(), close.end(), [&](const auto& c) {
        return c.at(0) <= layer && c.at(2) <= state.at("tokens");
      });
      for (Index head = 0; head < model->config().kv_heads; ++head) {
        const auto bank = std::size_t(head) % banks.size();
        const auto wanted = positions_of(banks.at(bank).get<std::string>());
        const heed::List<Index> list = cache.positions(layer, head);
        const std::vector<Index> found(list.data, list.data + list.size);
        if (!excused) {
          EXPECT_EQ(found, wanted) << "after " << state.at("tokens") << " tokens, layer " << layer
                                   << ", kv head " << head;
        }
        all_same = all_same && found == wanted;
        if (std::size_t(head) >= banks.size()) continue;  // a layer's one set counts once
        exact += found == wanted;
        ++compared;
      }
    }
    return all_same;
  }

  void compare_logits(const Matrix& logits, const nlohmann::json& state) {
    const auto top = state.at("top").get<std::vector<Index>>();
    for (std::size_t i = 0; i < top.size(); ++i) {
      const double wanted = state.at("logits").at(i).get<double>();
      const double found = double(logits(0, top[i]));
      EXPECT_NEAR(found, wanted, tolerance) << "after " << state.at("tokens") << ", at " << i;
      worst = std::max(worst, std::abs(found - wanted));
    }
  }

  inline static std::unique_ptr<Threads> threads;
  inline static std::unique_ptr<Model> model;
  inline static nlohmann::json fixture;

  Index compared = 0, exact = 0;
  double tolerance = 1e-3, worst = 0;  // of logits
};

TEST_F(SmolLmCaches, WindowAndFirstTokens) { follow("window+4:64", false); }
TEST_F(SmolLmCaches, TovaStepwise) { follow("tova:64", false); }
TEST_F(SmolLmCaches, TovaOneShot) { follow("tova:64", true); }
TEST_F(SmolLmCaches, H2oStepwise) { follow("h2o:64", false); }
TEST_F(SmolLmCaches, H2oOneShot) { follow("h2o:64", true); }

}  // namespace
}  // namespace lm

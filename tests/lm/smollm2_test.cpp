// SPDX-License-Identifier: Apache-2.0
//
// The real file: its head, its tensors, and ids equal to those of Hugging Face's tokenizer on 500
// odd strings (row R90), which tests/reference/make_lm_fixture.py wrote down. Skipped without the
// model.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "default_model.hpp"
#include "dequantize.hpp"
#include "tokenizer.hpp"

namespace {

using Ids = std::vector<int>;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

class SmolLmFile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!std::filesystem::exists(lm::default_model())) return;
    file_ = std::make_unique<lm::Gguf>(lm::Gguf::open(lm::default_model().string()));
    tokenizer_ = std::make_unique<lm::Tokenizer>(*file_);
    std::ifstream in(std::filesystem::path(__FILE__).parent_path() /
                     "../reference/lm_fixture.json");
    fixture_ = nlohmann::json::parse(in);
  }
  static void TearDownTestSuite() {
    tokenizer_.reset();
    file_.reset();
  }
  void SetUp() override {
    if (!file_) {
      GTEST_SKIP() << "NOT TESTED: there is no model at " << lm::default_model()
                   << "; examples/lm/fetch_model.sh fetches it";
    }
  }

  // Ids as in a list of the fixture, and the text back.
  static void equal(const char* list, bool special, const lm::Tokenizer& tokenizer = *tokenizer_) {
    for (const auto& row : fixture_.at(list)) {
      const auto text = row.at(0).get<std::string>();
      const Ids ids = tokenizer.encode(text, special);
      EXPECT_EQ(ids, row.at(1).get<Ids>()) << lm::quoted(text);
      EXPECT_EQ(tokenizer.decode(ids), text);
    }
  }

  static inline std::unique_ptr<lm::Gguf> file_;
  static inline std::unique_ptr<lm::Tokenizer> tokenizer_;
  static inline nlohmann::json fixture_;
};

TEST_F(SmolLmFile, IsWhatItSays) {
  EXPECT_EQ(file_->get_string("general.architecture"), "llama");
  EXPECT_EQ(file_->get_u32("llama.block_count"), 30u);
  EXPECT_EQ(file_->tensors().size(), 272u);
  EXPECT_EQ(tokenizer_->size(), 49152);
  EXPECT_EQ(tokenizer_->bos(), 1);
  EXPECT_EQ(tokenizer_->eos(), 2);
  EXPECT_TRUE(tokenizer_->is_control(16));
  EXPECT_FALSE(tokenizer_->is_control(17));
  EXPECT_EQ(tokenizer_->piece(2), "<|im_end|>");
}

// A wrong order of halves or a wrong scale would show in the size of the numbers.
TEST_F(SmolLmFile, WeightsAreOfTheUsualSize) {
  for (const auto& tensor : file_->tensors()) {
    const lm::Matrix w = lm::dequantize(tensor);
    EXPECT_TRUE(w.allFinite()) << tensor.name;
    EXPECT_LT(w.cwiseAbs().maxCoeff(), 100.f) << tensor.name;
    EXPECT_GT(w.norm(), 0.f) << tensor.name;
  }
}

TEST_F(SmolLmFile, R90IdsAreTheReferences) {
  equal("texts", false);
  equal("special", true);
  EXPECT_GE(fixture_.at("texts").size() + fixture_.at("special").size() +
                fixture_.at("literal").size() + fixture_.at("invalid").size(),
            500u);
}

TEST_F(SmolLmFile, R89SpelledOutSpecialsStayText) {
  equal("literal", false);
  for (int id = 0; id < tokenizer_->size(); ++id) {
    if (!tokenizer_->is_control(id)) continue;
    const std::string text = tokenizer_->piece(id);
    for (const int part : tokenizer_->encode(text, false)) {
      EXPECT_FALSE(tokenizer_->is_control(part)) << text;
    }
    EXPECT_EQ(tokenizer_->encode(text, true), Ids{id});
  }
}

TEST_F(SmolLmFile, BytesThatAreNoText) {
  for (const auto& row : fixture_.at("invalid")) {
    const std::string text = from_hex(row.at(0).get<std::string>());
    const Ids ids = tokenizer_->encode(text, true);
    EXPECT_EQ(ids, row.at(1).get<Ids>()) << lm::quoted(text);
    EXPECT_EQ(tokenizer_->decode(ids), text);
  }
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      ASSERT_EQ(tokenizer_->decode(tokenizer_->encode(text, true)), text);
    }
  }
}

// Every token's own bytes come back, whatever they are cut into.
TEST_F(SmolLmFile, EveryPieceComesBack) {
  for (int id = 0; id < tokenizer_->size() + 256; ++id) {
    const std::string piece = tokenizer_->piece(id);
    ASSERT_EQ(tokenizer_->decode(tokenizer_->encode(piece, true)), piece) << id;
  }
}

}  // namespace

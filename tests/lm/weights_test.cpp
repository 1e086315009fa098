// SPDX-License-Identifier: Apache-2.0
//
// From a GGUF file to a decoder: a small file gives the weights that were written, and one that
// does not describe a Llama decoder is refused by a sentence that names what is wrong.

#include "weights.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "gguf_builder.hpp"
#include "tiny_model.hpp"

namespace lm {
namespace {

using lm_test::Builder;
using lm_test::Bytes;

// A file in parts that a test changes before they are written.
struct Parts {
  std::string architecture = "llama";
  std::map<std::string, std::uint32_t> numbers;
  std::map<std::string, float> reals;
  std::map<std::string, std::string> texts;
  std::map<std::string, Matrix> tensors;

  Bytes bytes() const {
    Builder builder;
    builder.string("general.architecture", architecture);
    for (const auto& [key, value] : numbers) builder.u32(key, value);
    for (const auto& [key, value] : reals) builder.f32(key, value);
    for (const auto& [key, value] : texts) builder.string(key, value);
    for (const auto& [name, matrix] : tensors) {
      Bytes bytes;
      for (Index i = 0; i < matrix.size(); ++i) lm_test::append(bytes, matrix.data()[i]);
      if (matrix.rows() == 1) {
        builder.tensor(name, {std::uint64_t(matrix.cols())}, Type::kF32, bytes);
      } else {
        builder.tensor(name, {std::uint64_t(matrix.cols()), std::uint64_t(matrix.rows())},
                       Type::kF32, bytes);
      }
    }
    return builder.bytes();
  }
};

Parts parts_of(const Weights& weights) {
  const Config& c = weights.config;
  Parts parts;
  parts.numbers = {{"llama.block_count", std::uint32_t(weights.layers.size())},
                   {"llama.context_length", std::uint32_t(c.context)},
                   {"llama.embedding_length", std::uint32_t(c.width)},
                   {"llama.feed_forward_length", std::uint32_t(c.hidden)},
                   {"llama.attention.head_count", std::uint32_t(c.heads)},
                   {"llama.attention.head_count_kv", std::uint32_t(c.kv_heads)},
                   {"llama.attention.key_length", std::uint32_t(c.dim)},
                   {"llama.rope.dimension_count", std::uint32_t(c.rope.width)}};
  parts.reals = {{"llama.attention.layer_norm_rms_epsilon", c.epsilon},
                 {"llama.rope.freq_base", c.rope.theta},
                 {"llama.rope.scaling.factor", c.rope.scaling}};
  parts.texts = {{"llama.rope.scaling.type", "linear"}};
  parts.tensors = {{"token_embd.weight", weights.embedding}, {"output_norm.weight", weights.norm}};
  if (weights.head.size() != 0) parts.tensors["output.weight"] = weights.head;
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const Layer& layer = weights.layers[i];
    const std::string block = "blk." + std::to_string(i) + ".";
    const Index q = c.heads * c.dim, k = c.kv_heads * c.dim;
    parts.tensors[block + "attn_norm.weight"] = layer.attention_norm;
    parts.tensors[block + "ffn_norm.weight"] = layer.mlp_norm;
    parts.tensors[block + "attn_q.weight"] = layer.qkv.topRows(q);
    parts.tensors[block + "attn_k.weight"] = layer.qkv.middleRows(q, k);
    parts.tensors[block + "attn_v.weight"] = layer.qkv.bottomRows(k);
    parts.tensors[block + "attn_output.weight"] = layer.out;
    parts.tensors[block + "ffn_gate.weight"] = layer.gate;
    parts.tensors[block + "ffn_up.weight"] = layer.up;
    parts.tensors[block + "ffn_down.weight"] = layer.down;
  }
  return parts;
}

Weights load_parts(const Parts& parts) {
  const Bytes bytes = parts.bytes();
  return load(Gguf::parse(bytes, "small.gguf"));
}

TEST(Weights, AreWhatWasWritten) {
  for (const bool tied : {true, false}) {
    const Weights wanted = tiny_weights(tied), found = load_parts(parts_of(wanted));
    EXPECT_TRUE(found.embedding == wanted.embedding);
    EXPECT_EQ(found.head.size() == 0, tied);
    EXPECT_TRUE(tied || found.head == wanted.head);
    EXPECT_TRUE(found.norm == wanted.norm);
    EXPECT_EQ(found.count(), wanted.count());
    ASSERT_EQ(found.layers.size(), wanted.layers.size());
    for (std::size_t i = 0; i < found.layers.size(); ++i) {
      EXPECT_TRUE(found.layers[i].qkv == wanted.layers[i].qkv);
      EXPECT_TRUE(found.layers[i].out == wanted.layers[i].out);
      EXPECT_TRUE(found.layers[i].gate == wanted.layers[i].gate);
      EXPECT_TRUE(found.layers[i].up == wanted.layers[i].up);
      EXPECT_TRUE(found.layers[i].down == wanted.layers[i].down);
      EXPECT_TRUE(found.layers[i].attention_norm == wanted.layers[i].attention_norm);
      EXPECT_TRUE(found.layers[i].mlp_norm == wanted.layers[i].mlp_norm);
    }
    const Config &a = found.config, &b = wanted.config;
    EXPECT_EQ(a.width, b.width);
    EXPECT_EQ(a.hidden, b.hidden);
    EXPECT_EQ(a.heads, b.heads);
    EXPECT_EQ(a.kv_heads, b.kv_heads);
    EXPECT_EQ(a.dim, b.dim);
    EXPECT_EQ(a.vocabulary, b.vocabulary);
    EXPECT_EQ(a.context, b.context);
    EXPECT_EQ(a.epsilon, b.epsilon);
    EXPECT_EQ(a.rope.theta, b.rope.theta);
    EXPECT_EQ(a.rope.width, b.rope.width);
    EXPECT_EQ(a.rope.scaling, b.rope.scaling);
    EXPECT_TRUE(a.rope.pairing == heed::Pairing::neighbours);
  }
}

TEST(Weights, RopeTurnsAllOfAHeadUnlessTheFileSaysOtherwise) {
  Parts parts = parts_of(tiny_weights(true));
  parts.numbers.erase("llama.rope.dimension_count");  // all of dim
  parts.texts.clear();                                // no scaling
  const Config config = load_parts(parts).config;
  EXPECT_EQ(config.rope.width, config.dim);
  EXPECT_EQ(config.rope.scaling, 1.0f);
}

TEST(Weights, RefuseWhatIsNoLlamaDecoder) {
  const Parts good = parts_of(tiny_weights(true));
  const auto said = [&](const std::function<void(Parts&)>& change) -> std::string {
    Parts parts = good;
    change(parts);
    try {
      load_parts(parts);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto expect = [&](const char* words, const std::function<void(Parts&)>& change) {
    const std::string sentence = said(change);
    EXPECT_NE(sentence.find(words), std::string::npos) << words << " in: " << sentence;
  };
  EXPECT_EQ(said([](Parts&) {}), "");
  expect("falcon", [](Parts& p) { p.architecture = "falcon"; });
  expect("llama.block_count", [](Parts& p) { p.numbers["llama.block_count"] = 0; });
  expect("blk.3.", [](Parts& p) { p.numbers["llama.block_count"] = 4'000'000'000u; });
  expect("blk.2.", [](Parts& p) { p.numbers["llama.block_count"] = 2; });
  expect("llama.embedding_length", [](Parts& p) { p.numbers.erase("llama.embedding_length"); });
  expect("token_embd.weight", [](Parts& p) { p.numbers["llama.embedding_length"] = 25; });
  expect("6 query heads", [](Parts& p) { p.numbers["llama.attention.head_count_kv"] = 4; });
  expect("attn_q", [](Parts& p) { p.numbers["llama.attention.key_length"] = 4'000'000'000u; });
  expect("values of another width", [](Parts& p) {
    p.numbers["llama.attention.value_length"] = 4;
  });
  expect("dimension_count", [](Parts& p) { p.numbers["llama.rope.dimension_count"] = 7; });
  expect("dimension_count", [](Parts& p) { p.numbers["llama.rope.dimension_count"] = 10; });
  expect("RoPE", [](Parts& p) { p.reals["llama.rope.freq_base"] = -1; });
  expect("yarn", [](Parts& p) { p.texts["llama.rope.scaling.type"] = "yarn"; });
  expect("epsilon", [](Parts& p) { p.reals["llama.attention.layer_norm_rms_epsilon"] = -1; });
  expect("experts", [](Parts& p) { p.numbers["llama.expert_count"] = 8; });
  expect("blk.1.ffn_up.weight", [](Parts& p) { p.tensors.erase("blk.1.ffn_up.weight"); });
  expect("blk.1.ffn_up.weight", [](Parts& p) {
    p.tensors["blk.1.ffn_up.weight"].conservativeResize(99, Eigen::NoChange);
  });
  expect("blk.0.attn_q.bias", [](Parts& p) {
    p.tensors["blk.0.attn_q.bias"] = Matrix::Ones(1, 48);
  });
}

}  // namespace
}  // namespace lm

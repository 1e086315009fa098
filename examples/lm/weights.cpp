// SPDX-License-Identifier: Apache-2.0
//
// From a GGUF file to a decoder's weights. Shapes come from the metadata and are compared with the
// tensors before anything of their size is allocated.

#include "weights.hpp"

#include <cmath>
#include <set>

namespace lm {
namespace {

class Loader {
 public:
  explicit Loader(const Gguf& file) : file_(file) {}

  Weights load() {
    read_config();
    Weights weights;
    const Index width = config_.width;
    config_.vocabulary = file_.tensor("token_embd.weight").rows();
    weights.embedding = matrix("token_embd.weight", width, config_.vocabulary);
    if (file_.has_tensor("output.weight")) {
      weights.head = matrix("output.weight", width, config_.vocabulary);
    }
    weights.norm = vector("output_norm.weight");
    for (Index i = 0; i < layers_; ++i) weights.layers.push_back(layer(i));
    refuse_other_tensors();
    weights.config = config_;
    return weights;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(file_.name() + ": " + what);
  }
  Index number(const char* key) const {
    const std::uint32_t value = file_.get_u32(key);
    if (value == 0) fail(std::string(key) + " is 0");
    return static_cast<Index>(value);
  }

  void read_config() {
    const std::string_view architecture = file_.get_string("general.architecture");
    if (architecture != "llama") {
      fail("the architecture is " + quoted(architecture) + "; this program runs \"llama\"");
    }
    layers_ = number("llama.block_count");
    config_.context = number("llama.context_length");
    config_.width = number("llama.embedding_length");
    config_.hidden = number("llama.feed_forward_length");
    config_.heads = number("llama.attention.head_count");
    config_.kv_heads = file_.has("llama.attention.head_count_kv")
                           ? number("llama.attention.head_count_kv") : config_.heads;
    config_.dim = file_.has("llama.attention.key_length")
                      ? number("llama.attention.key_length") : config_.width / config_.heads;
    config_.epsilon = file_.get_f32("llama.attention.layer_norm_rms_epsilon");
    if (config_.dim == 0 || config_.heads % config_.kv_heads != 0) {
      fail(std::to_string(config_.heads) + " query heads and " + std::to_string(config_.kv_heads) +
           " key heads do not share a width of " + std::to_string(config_.width));
    }
    if (file_.has("llama.attention.value_length") &&
        number("llama.attention.value_length") != config_.dim) {
      fail("values of another width than keys are not supported");
    }
    if (!(config_.epsilon >= 0)) fail("llama.attention.layer_norm_rms_epsilon is negative");
    if (file_.get_u32("llama.expert_count", 0) != 0) fail("experts are not supported");
    read_rope();
  }

  void read_rope() {
    heed::Rope& rope = config_.rope;
    rope.theta = file_.get_f32("llama.rope.freq_base", 1e4f);
    rope.width = static_cast<Index>(file_.get_u32("llama.rope.dimension_count",
                                                  static_cast<std::uint32_t>(config_.dim)));
    const std::string_view scaling = file_.has("llama.rope.scaling.type")
                                         ? file_.get_string("llama.rope.scaling.type") : "none";
    if (scaling == "linear") {
      rope.scaling = file_.get_f32("llama.rope.scaling.factor");
    } else if (scaling != "none") {
      fail("RoPE scaling " + quoted(scaling) + " is not supported");
    }
    if (file_.has("llama.rope.scale_linear")) {
      rope.scaling = file_.get_f32("llama.rope.scale_linear");
    }
    if (rope.width == 0 || rope.width > config_.dim || rope.width % 2 != 0) {
      fail("llama.rope.dimension_count is " + std::to_string(rope.width) +
           "; it is an even number up to " + std::to_string(config_.dim));
    }
    if (!(rope.theta > 0) || !(rope.scaling > 0)) fail("RoPE's base and factor are above 0");
  }

  Layer layer(Index i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    const Index width = config_.width, dim = config_.dim;
    Layer layer;
    layer.attention_norm = vector(block + "attn_norm.weight");
    layer.mlp_norm = vector(block + "ffn_norm.weight");
    layer.qkv = stack({&tensor(block + "attn_q.weight", width, config_.heads * dim),
                       &tensor(block + "attn_k.weight", width, config_.kv_heads * dim),
                       &tensor(block + "attn_v.weight", width, config_.kv_heads * dim)});
    layer.out = matrix(block + "attn_output.weight", config_.heads * dim, width);
    layer.gate = matrix(block + "ffn_gate.weight", width, config_.hidden);
    layer.up = matrix(block + "ffn_up.weight", width, config_.hidden);
    layer.down = matrix(block + "ffn_down.weight", config_.hidden, width);
    return layer;
  }

  const Tensor& tensor(const std::string& name, Index columns, Index rows) {
    used_.insert(name);
    return file_.tensor(name, columns, rows);
  }
  Matrix matrix(const std::string& name, Index columns, Index rows) {
    return dequantize(tensor(name, columns, rows));
  }
  Vector vector(const std::string& name) {
    return dequantize(tensor(name, config_.width, 1)).row(0);
  }
  static Matrix stack(std::initializer_list<const Tensor*> tensors) {
    Index rows = 0;
    for (const Tensor* const tensor : tensors) rows += tensor->rows();
    Matrix all(rows, (*tensors.begin())->columns());
    rows = 0;
    for (const Tensor* const tensor : tensors) {
      all.middleRows(rows, tensor->rows()) = dequantize(*tensor);
      rows += tensor->rows();
    }
    return all;
  }

  void refuse_other_tensors() const {
    for (const Tensor& tensor : file_.tensors()) {
      if (!used_.contains(std::string(tensor.name))) {
        fail("tensor " + quoted(tensor.name) + " is no part of a Llama decoder with " +
             std::to_string(layers_) + " layers");
      }
    }
  }

  const Gguf& file_;
  Config config_;
  Index layers_ = 0;
  std::set<std::string> used_;
};

}  // namespace

Index Weights::count() const {
  Index sum = embedding.size() + head.size() + norm.size();
  for (const Layer& l : layers) {
    sum += l.attention_norm.size() + l.mlp_norm.size() + l.qkv.size() + l.out.size() +
           l.gate.size() + l.up.size() + l.down.size();
  }
  return sum;
}

Weights load(const Gguf& file) { return Loader(file).load(); }

}  // namespace lm

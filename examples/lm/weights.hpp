// SPDX-License-Identifier: Apache-2.0
//
// The shape and the weights of a Llama-type decoder (Touvron et al., arXiv 2302.13971, with grouped
// queries), as floats: what is quantised in the file is expanded once, four bytes per weight.
// Matrices are [outputs, inputs], as the file holds them; the products of the queries, keys and
// values stand below each other in one matrix, because they read the same input.
//
// A converter to GGUF reorders the rows of the query and key weights of this family so that the
// two components of a rotated pair are neighbours: RoPE's pairing is neighbours here, although the
// model was trained with halves.

#pragma once

#include <heed/heed.hpp>

#include <string>
#include <vector>

#include "dequantize.hpp"
#include "gguf.hpp"

namespace lm {

using Vector = Eigen::Matrix<float, 1, Eigen::Dynamic>;  // of activations: a row

struct Config {
  Index width = 0;    // of a token's vector
  Index hidden = 0;   // of the gated MLP
  Index heads = 0, kv_heads = 0, dim = 0;
  Index vocabulary = 0;
  Index context = 0;  // the most tokens that the model was made for
  float epsilon = 0;  // of the norms
  heed::Rope rope{.pairing = heed::Pairing::neighbours};
};

struct Layer {
  Vector attention_norm, mlp_norm;  // [width]
  Matrix qkv;                       // [(heads + 2 kv_heads) dim, width]
  Matrix out;                       // [width, heads dim]
  Matrix gate, up;                  // [hidden, width]
  Matrix down;                      // [width, hidden]
};

struct Weights {
  Config config;
  Matrix embedding;  // [vocabulary, width]
  Matrix head;       // the same shape; empty: the embedding serves as the last product too
  Vector norm;       // [width]
  std::vector<Layer> layers;

  Index count() const;  // numbers in all
};

// Reads all of it. Throws Error for another architecture, a shape that does not fit, and tensors
// or settings that change what a Llama decoder computes: nothing is skipped silently.
Weights load(const Gguf& file);

}  // namespace lm

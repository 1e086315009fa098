// SPDX-License-Identifier: Apache-2.0
//
// A small decoder-only transformer for training: tied embeddings, layers of attention and a ReLU
// network, each with a layer norm before it (or after the sum: post_norm, the original order).
//
//   pre:  x += f(norm(x))       post:  x = norm(x + f(x))
//   logits = norm(x) embedding' (pre)  or  x embedding' (post), only where there is a target
//
// A Model holds no weights: they are one vector, which the optimiser owns. A Pass holds the
// activations of a few sequences; several passes run side by side over one set of weights.

#pragma once

#include "attention.hpp"
#include "layers.hpp"

namespace tasks {

struct ModelShape {
  Index vocabulary = 0, layers = 2, width = 64, heads = 4, hidden = 256;
  Index longest = 0;    // positions that `absolute` has vectors for
  Index vectors = 64;   // of relative and CoPE
  Pe pe = Pe::cope;
  heed::CopeForm form = heed::CopeForm::a;
  bool post_norm = false;
  float dropout = 0;    // after the embedding and after each f
};

// Sequences padded on the right to one length. A target below 0 is not asked for.
struct Batch {
  Index count = 0, time = 0;
  std::vector<int> tokens, targets;   // [count, time]
  Batch() = default;
  Batch(Index sequences, Index length)
      : count(sequences),
        time(length),
        tokens(static_cast<std::size_t>(sequences * length)),
        targets(static_cast<std::size_t>(sequences * length), -1) {}
};

class Model {
 public:
  explicit Model(const ModelShape& shape);

  Vector initial_weights(std::uint64_t seed) const;
  const ModelShape& shape() const { return shape_; }
  const Layout& layout() const { return layout_; }
  Index parameters() const { return layout_.size(); }
  const Slice* scales() const { return scales_; }   // nope: [layers, heads]; otherwise null

  struct Layer {
    Norm norm[2];
    Linear qkv, out, up, down;
    const Slice* vectors = nullptr;   // of relative (one for all layers) or CoPE
  };
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  friend class Pass;
  Linear linear(const std::string& name, Index in, Index out);
  Norm norm(const std::string& name);

  ModelShape shape_;
  Layout layout_;
  std::vector<Layer> layers_;
  const Slice* embedding_ = nullptr;   // [vocabulary, width]
  const Slice* positions_ = nullptr;   // absolute: [longest, width]
  const Slice* scales_ = nullptr;
  Norm last_;
};

class Pass {
 public:
  explicit Pass(const Model& model) : m_(model), kept_(std::size_t(model.shape().layers)) {}

  // Sequences [first, first + count) of a batch. With a random stream: dropout.
  Score forward(const Vector& weights, const Batch& batch, Index first, Index count,
                Random* dropout = nullptr);
  // After forward: adds `scale` times the gradient of the summed losses.
  void backward(const Vector& weights, float scale, Vector& gradient);

  // The attention of one layer once more, after forward: entropies or weights.
  void look(const Vector& weights, Index layer, const Look& look);
  const Matrix& qkv(Index layer) const { return kept_[std::size_t(layer)].qkv; }

 private:
  struct Kept {
    Norm::Kept norm[2];
    Matrix in[2];                      // what f received
    Matrix dropped[2];
    Matrix qkv, mixed, hidden;
    std::vector<float> lse;
  };

  AttentionShape attention_shape() const {
    return {count_, time_, m_.shape().heads, m_.shape().width};
  }
  Tables tables(const Vector& weights, Index layer) const;
  void embed(const Vector& weights, const Batch& batch, Index first);
  void attend(const Vector& weights, Index layer);
  void think(const Vector& weights, Index layer);
  void attend_adjoint(const Vector& weights, Index layer, Vector& gradient);
  void think_adjoint(const Vector& weights, Index layer, Vector& gradient);
  Score score(const Vector& weights, const Batch& batch, Index first);
  template <class F>
  void around(const Vector& weights, Index layer, int part, const F& f);
  template <class F>
  void around_adjoint(const Vector& weights, Index layer, int part, Vector& gradient, const F& f);

  const Model& m_;
  std::vector<Kept> kept_;
  Index count_ = 0, time_ = 0;
  Random* random_ = nullptr;
  std::vector<int> tokens_, targets_;
  std::vector<Index> asked_;   // rows with a target
  Norm::Kept last_;
  Matrix x_, y_, dx_, dy_, dhidden_, dqkv_, dmixed_, dropped_, final_, wanted_, logits_;
};

}  // namespace tasks

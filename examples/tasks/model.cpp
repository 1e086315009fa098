// SPDX-License-Identifier: Apache-2.0
//
// The transformer, forward and backward. Read forward(), then backward(): the same lines upside
// down.

#include "model.hpp"

namespace tasks {

Model::Model(const ModelShape& shape) : shape_(shape), layers_(std::size_t(shape.layers)) {
  const Index width = shape.width, dim = width / shape.heads;
  embedding_ = layout_.add("embedding", shape.vocabulary, width, true);
  if (shape.pe == Pe::absolute) positions_ = layout_.add("positions", shape.longest, width);
  if (shape.pe == Pe::nope) {
    scales_ = layout_.add("scales", shape.layers, shape.heads, false, false);
  }
  const Slice* shared = nullptr;
  if (shape.pe == Pe::relative || shape.pe == Pe::relative_capped) {
    shared = layout_.add("relative", shape.vectors, dim);
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    const std::string name = std::to_string(i);
    layer.norm[0] = norm("attention norm " + name);
    layer.qkv = linear("qkv " + name, width, 3 * width);
    layer.out = linear("out " + name, width, width);
    layer.norm[1] = norm("network norm " + name);
    layer.up = linear("up " + name, width, shape.hidden);
    layer.down = linear("down " + name, shape.hidden, width);
    layer.vectors = shape.pe == Pe::cope ? layout_.add("cope " + name, shape.vectors, dim) : shared;
  }
  last_ = norm("last norm");
}

Linear Model::linear(const std::string& name, Index in, Index out) {
  const Slice* const weight = layout_.add(name, in, out, true);
  return {weight, layout_.add(name + " bias", 1, out)};
}
Norm Model::norm(const std::string& name) {
  const Slice* const gain = layout_.add(name, 1, shape_.width);
  return {gain, layout_.add(name + " bias", 1, shape_.width)};
}

// Normal weights of variance 1/inputs; what is added to x, divided by the root of their number.
Vector Model::initial_weights(std::uint64_t seed) const {
  Vector weights = Vector::Zero(layout_.size());
  std::uint64_t number = 0;
  const auto fill = [&](const Slice* slice, double deviation) {
    Random random(seed, Stream::weights, number++);
    for (float& w : weights.segment(slice->offset, slice->size())) {
      w = static_cast<float>(deviation * random.normal());
    }
  };
  const auto inputs = [](Index n) { return 1 / std::sqrt(static_cast<double>(n)); };
  fill(embedding_, inputs(shape_.width));
  for (const Layer& layer : layers_) {
    const double sums = inputs(2 * shape_.layers);
    fill(layer.qkv.weight, inputs(shape_.width));
    fill(layer.out.weight, inputs(shape_.width) * sums);
    fill(layer.up.weight, inputs(shape_.width));
    fill(layer.down.weight, inputs(shape_.hidden) * sums);
    for (const Norm& norm : layer.norm) norm.gain->of(weights).setOnes();
  }
  last_.gain->of(weights).setOnes();
  if (positions_ != nullptr) fill(positions_, inputs(shape_.width));
  if (scales_ != nullptr) scales_->of(weights).setOnes();
  const Slice* const vectors = layers_.empty() ? nullptr : layers_[0].vectors;
  if (vectors != nullptr && shape_.pe != Pe::cope) fill(vectors, inputs(vectors->cols));
  return weights;
}

Tables Pass::tables(const Vector& weights, Index layer) const {
  Tables t;
  t.form = m_.shape().form;
  if (const Slice* const s = m_.layers()[std::size_t(layer)].vectors) {
    t.vectors = heed::TableView(weights.data() + s->offset, 1, s->rows, s->cols);
  }
  if (const Slice* const s = m_.scales()) {
    t.scales = heed::List<float>(weights.data() + s->offset + layer * s->cols, s->cols);
  }
  return t;
}

void Pass::embed(const Vector& weights, const Batch& batch, Index first) {
  const auto table = m_.embedding_->of(weights);
  const auto begin = batch.tokens.begin() + first * batch.time;
  tokens_.assign(begin, begin + count_ * time_);
  x_.resize(count_ * time_, m_.shape().width);
  for (Index i = 0; i < x_.rows(); ++i) x_.row(i) = table.row(tokens_[std::size_t(i)]);
  if (m_.shape().pe == Pe::absolute || m_.shape().pe == Pe::sinusoid) {
    const Matrix sines =
        m_.positions_ ? Matrix() : heed::sinusoidal(time_, m_.shape().width);
    const heed::TableView positions =
        m_.positions_ ? heed::TableView(weights.data() + m_.positions_->offset, 1,
                                        m_.positions_->rows, m_.positions_->cols)
                      : heed::TableView(sines);
    for (Index b = 0; b < count_; ++b) {
      heed::add_positions(Eigen::Map<Matrix>(x_.data() + b * time_ * x_.cols(), time_, x_.cols()),
                          positions);
    }
  }
  if (random_ != nullptr) drop(x_, m_.shape().dropout, *random_, dropped_);
}

// x_ -> x_, with f(in, y_) in between.
template <class F>
void Pass::around(const Vector& weights, Index layer, int part, const F& f) {
  const Norm& norm = m_.layers()[std::size_t(layer)].norm[part];
  Kept& kept = kept_[std::size_t(layer)];
  if (m_.shape().post_norm) {
    kept.in[part] = x_;
  } else {
    norm.forward(weights, x_, kept.in[part], kept.norm[part]);
  }
  f(kept.in[part]);
  if (random_ != nullptr) drop(y_, m_.shape().dropout, *random_, kept.dropped[part]);
  x_ += y_;
  if (m_.shape().post_norm) norm.forward(weights, x_, x_, kept.norm[part]);
}

// dx_ -> dx_; f turns dy_ into the gradient of what it received.
template <class F>
void Pass::around_adjoint(const Vector& weights, Index layer, int part, Vector& gradient,
                          const F& f) {
  const Norm& norm = m_.layers()[std::size_t(layer)].norm[part];
  const Kept& kept = kept_[std::size_t(layer)];
  if (m_.shape().post_norm) norm.backward(weights, kept.norm[part], dx_, gradient);
  dy_ = dx_;
  if (random_ != nullptr) dy_.array() *= kept.dropped[part].array();
  f(kept.in[part]);
  if (!m_.shape().post_norm) norm.backward(weights, kept.norm[part], dy_, gradient);
  dx_ += dy_;
}

void Pass::attend(const Vector& weights, Index layer) {
  around(weights, layer, 0, [&](const Matrix& in) {
    const Model::Layer& l = m_.layers()[std::size_t(layer)];
    Kept& kept = kept_[std::size_t(layer)];
    l.qkv.forward(weights, in, kept.qkv);
    attention(attention_shape(), m_.shape().pe, tables(weights, layer), kept.qkv, kept.mixed,
              kept.lse);
    l.out.forward(weights, kept.mixed, y_);
  });
}
void Pass::attend_adjoint(const Vector& weights, Index layer, Vector& gradient) {
  around_adjoint(weights, layer, 0, gradient, [&](const Matrix& in) {
    const Model::Layer& l = m_.layers()[std::size_t(layer)];
    const Kept& kept = kept_[std::size_t(layer)];
    l.out.backward(weights, kept.mixed, dy_, dmixed_, gradient);
    const auto part_of = [&](const Slice* s, Index row, Index rows) {
      float* const data = s == nullptr ? nullptr : gradient.data() + s->offset + row * s->cols;
      return Eigen::Map<Matrix>(data, s == nullptr ? 0 : rows, s == nullptr ? 0 : s->cols);
    };
    attention_adjoint(attention_shape(), m_.shape().pe, tables(weights, layer), kept.qkv,
                      kept.mixed, kept.lse, dmixed_, dqkv_,
                      part_of(l.vectors, 0, l.vectors == nullptr ? 0 : l.vectors->rows),
                      part_of(m_.scales(), layer, 1));
    l.qkv.backward(weights, in, dqkv_, dy_, gradient);
  });
}

void Pass::think(const Vector& weights, Index layer) {
  around(weights, layer, 1, [&](const Matrix& in) {
    const Model::Layer& l = m_.layers()[std::size_t(layer)];
    Matrix& hidden = kept_[std::size_t(layer)].hidden;
    l.up.forward(weights, in, hidden);
    hidden = hidden.cwiseMax(0.0f);
    l.down.forward(weights, hidden, y_);
  });
}
void Pass::think_adjoint(const Vector& weights, Index layer, Vector& gradient) {
  around_adjoint(weights, layer, 1, gradient, [&](const Matrix& in) {
    const Model::Layer& l = m_.layers()[std::size_t(layer)];
    const Matrix& hidden = kept_[std::size_t(layer)].hidden;
    l.down.backward(weights, hidden, dy_, dhidden_, gradient);
    dhidden_ = (hidden.array() > 0).select(dhidden_, 0.0f);
    l.up.backward(weights, in, dhidden_, dy_, gradient);
  });
}

// Loss where there is a target. logits_ is left as d loss / d logits.
Score Pass::score(const Vector& weights, const Batch& batch, Index first) {
  asked_.clear();
  targets_.clear();
  for (Index i = 0; i < count_ * time_; ++i) {
    const int target = batch.targets[std::size_t(first * time_ + i)];
    if (target < 0) continue;
    asked_.push_back(i);
    targets_.push_back(target);
  }
  wanted_.resize(Index(asked_.size()), x_.cols());
  for (Index i = 0; i < wanted_.rows(); ++i) wanted_.row(i) = x_.row(asked_[std::size_t(i)]);
  if (m_.shape().post_norm) {
    final_ = wanted_;
  } else {
    m_.last_.forward(weights, wanted_, final_, last_);
  }
  logits_.resize(wanted_.rows(), m_.shape().vocabulary);
  logits_.noalias() = final_ * m_.embedding_->of(weights).transpose();

  std::vector<bool> wrong;
  Score score;
  score.loss = cross_entropy(logits_, targets_, wrong);
  score.targets = Index(targets_.size());
  Index last_wrong = -1, last_asked = -1;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const Index sequence = asked_[i] / time_;
    score.wrong += wrong[i];
    score.sequences += sequence != last_asked;
    score.wrong_sequences += wrong[i] && sequence != last_wrong;
    last_asked = sequence;
    if (wrong[i]) last_wrong = sequence;
  }
  return score;
}

Score Pass::forward(const Vector& weights, const Batch& batch, Index first, Index count,
                    Random* dropout) {
  count_ = count;
  time_ = batch.time;
  random_ = m_.shape().dropout > 0 ? dropout : nullptr;
  embed(weights, batch, first);
  for (Index layer = 0; layer < m_.shape().layers; ++layer) {
    attend(weights, layer);
    think(weights, layer);
  }
  return score(weights, batch, first);
}

void Pass::backward(const Vector& weights, float scale, Vector& gradient) {
  logits_ *= scale;
  m_.embedding_->of(gradient).noalias() += logits_.transpose() * final_;
  wanted_.noalias() = logits_ * m_.embedding_->of(weights);
  if (!m_.shape().post_norm) m_.last_.backward(weights, last_, wanted_, gradient);
  dx_ = Matrix::Zero(count_ * time_, m_.shape().width);
  for (Index i = 0; i < wanted_.rows(); ++i) dx_.row(asked_[std::size_t(i)]) = wanted_.row(i);
  for (Index layer = m_.shape().layers - 1; layer >= 0; --layer) {
    think_adjoint(weights, layer, gradient);
    attend_adjoint(weights, layer, gradient);
  }
  if (random_ != nullptr) dx_.array() *= dropped_.array();
  auto embedding = m_.embedding_->of(gradient);
  for (Index i = 0; i < dx_.rows(); ++i) embedding.row(tokens_[std::size_t(i)]) += dx_.row(i);
  if (m_.positions_ == nullptr) return;
  for (Index b = 0; b < count_; ++b) {
    heed::add_positions_adjoint(
        Eigen::Map<const Matrix>(dx_.data() + b * time_ * dx_.cols(), time_, dx_.cols()),
        m_.positions_->of(gradient));
  }
}

void Pass::look(const Vector& weights, Index layer, const Look& look) {
  Kept& kept = kept_[std::size_t(layer)];
  attention(attention_shape(), m_.shape().pe, tables(weights, layer), kept.qkv, kept.mixed,
            kept.lse, look);
}

}  // namespace tasks

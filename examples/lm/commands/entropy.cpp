// SPDX-License-Identifier: Apache-2.0
//
// How widely each head spreads its attention: the entropy of its weights in nats, from the same
// pass as the output (heed::Into{.entropy}), as the mean over the tokens of a text. e^entropy is
// the number of tokens that a head looks at; ln of all it could see is the most.

#include <cmath>
#include <cstdio>

#include "../clock.hpp"
#include "commands.hpp"

namespace lm {

void entropy(Session& session, const Entropy& options) {
  const Model& model = *session.model;
  const Index layers = model.layers(), heads = model.config().heads;
  const Index most = std::min(options.tokens, model.config().context);
  const std::vector<int> ids = read_text(session, options.text, most, 1);
  const Index n = static_cast<Index>(ids.size());

  Matrix sums = Matrix::Zero(layers, heads);
  Matrix piece(heads, Model::kPiece);  // [heads, tokens], of the layer at hand
  Index tokens = 0, last_layer = -1;
  const auto add = [&] {
    if (last_layer >= 0) sums.row(last_layer) += piece.leftCols(tokens).rowwise().sum().transpose();
  };
  Observer observer;
  observer.before = [&](Index layer, heed::Into& into) {
    add();  // what the layer before has left
    tokens = into.out.time(), last_layer = layer;
    into.entropy = heed::RowView(piece.data(), {1, heads, tokens});
    into.entropy.stride = {0, Model::kPiece, 1};
  };
  double uniform = 0;
  for (Index i = 0; i < n; ++i) uniform += std::log(static_cast<double>(i + 1));
  {
    Progress progress("tokens", n);
    KvCache cache = model.new_cache();
    model.read(ids, cache, [&](Index first, const Matrix& vectors) {
      progress.at(first + vectors.rows());
    }, &observer);
  }
  add();

  const float count = static_cast<float>(n);
  std::printf("Mean attention entropy in nats over %s tokens. A head that looks at all tokens up "
              "to its\nown alike has %.2f.\n\nlayer", number(n).c_str(),
              uniform / static_cast<double>(n));
  for (Index head = 0; head < heads; ++head) std::printf("  head %td", head);
  std::printf("    mean\n");
  for (Index layer = 0; layer < layers; ++layer) {
    std::printf("%5td", layer);
    for (Index head = 0; head < heads; ++head) {
      std::printf("  %6.2f", static_cast<double>(sums(layer, head) / count));
    }
    std::printf("  %6.2f\n", static_cast<double>(sums.row(layer).mean() / count));
  }
}

}  // namespace lm

// SPDX-License-Identifier: Apache-2.0
//
// The attention map of one head over the first tokens of a text, as an SVG: queries downwards, keys
// to the right, each with its token. The weights come out of the attention itself
// (heed::Into{.weights}).

#include <cstdio>

#include "../token_map.hpp"
#include "commands.hpp"

namespace lm {

void map(Session& session, const Map& options) {
  const Model& model = *session.model;
  const Index heads = model.config().heads;
  check_range("--layer", options.layer, 0, model.layers() - 1);
  check_range("--head", options.head, 0, heads - 1);
  check_range("--tokens", options.tokens, 1, std::min(Model::kPiece, model.config().context));
  const std::vector<int> ids = read_text(session, options.text, options.tokens, 1);
  const Index n = static_cast<Index>(ids.size());

  std::vector<float> weights(static_cast<std::size_t>(heads * n * n));
  Observer observer;
  observer.before = [&](Index layer, heed::Into& into) {
    if (layer != options.layer) return;
    into.weights.to = heed::View<float>(weights.data(), {1, heads, n, n});
  };
  KvCache cache = model.new_cache();
  model.forward(ids, cache, &observer);

  const Eigen::Map<const Matrix> cells(weights.data() + options.head * n * n, n, n);
  std::vector<std::string> labels;
  for (const int id : ids) labels.push_back(label(session, id));
  save(options.svg, draw_tokens("Layer " + number(options.layer) + ", head " +
                                    number(options.head), labels, cells));

  std::printf("%s: %s tokens. The keys that get most of the attention, over all queries that see "
              "them:\n", options.svg.c_str(), number(n).c_str());
  const Vector mean = cells.colwise().sum().array() /
                      Vector::LinSpaced(n, static_cast<float>(n), 1).array();
  Matrix left = mean;
  for (const Likely& key : likeliest(left, 5)) {
    std::printf("%6.2f %%  %5d  %s\n", 100 * static_cast<double>(key.logit), key.id,
                labels[static_cast<std::size_t>(key.id)].c_str());
  }
}

}  // namespace lm

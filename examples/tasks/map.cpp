// SPDX-License-Identifier: Apache-2.0
//
// Attention weights come from heed (Into's weights); counted positions are computed here from the
// layer's queries and keys, as the formula stands: p_j = min(sum over k >= j of sigmoid(q.k / sqrt
// d), N - 1).

#include "map.hpp"

#include <cstdio>

#include "svg.hpp"

namespace tasks {

namespace {

struct Head {
  Index layer, head;
  Eigen::MatrixXf weights, positions;   // [query, key]
};

std::vector<Head> heads_of(Trainer& trainer, const Sample& sample) {
  const Model& model = trainer.model();
  const ModelShape& s = model.shape();
  const Index n = Index(sample.tokens.size()), dim = s.width / s.heads;
  Pass pass(model);
  pass.forward(trainer.weights(), make_batch({sample}), 0, 1);
  std::vector<Head> heads;
  std::vector<float> weights(std::size_t(s.heads * n * n));
  for (Index layer = 0; layer < s.layers; ++layer) {
    pass.look(trainer.weights(), layer,
              {.entropy = {}, .weights = {{weights.data(), {1, s.heads, n, n}}, {}}});
    const Matrix& qkv = pass.qkv(layer);
    for (Index h = 0; h < s.heads; ++h) {
      Head head{layer, h, Eigen::Map<Matrix>(weights.data() + h * n * n, n, n), {}};
      head.positions.setZero(n, n);
      const Eigen::MatrixXf logits = qkv.middleCols(h * dim, dim) *
                                     qkv.middleCols(s.width + h * dim, dim).transpose() /
                                     std::sqrt(static_cast<float>(dim));
      for (Index i = 0; i < n; ++i) {
        double sum = 0;
        for (Index j = i; j >= 0; --j) {
          sum += 1 / (1 + std::exp(-double{logits(i, j)}));
          head.positions(i, j) =
              static_cast<float>(std::min(sum, static_cast<double>(s.vectors - 1)));
        }
      }
      heads.push_back(std::move(head));
    }
  }
  return heads;
}

template <class... Values>
std::string words(const char* pattern, Values... values) {
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

// The last query that is asked for something.
Index asked_of(const Sample& sample) {
  Index asked = 0;
  for (std::size_t i = 0; i < sample.targets.size(); ++i) {
    if (sample.targets[i] >= 0) asked = Index(i);
  }
  return asked;
}

}  // namespace

std::vector<std::string> token_names(const std::string& problem) {
  if (problem == "flip-flop") return {"w", "r", "i", "0", "1"};
  std::vector<std::string> names;
  if (problem == "selective-copy") {
    for (char c = 'A'; c < 'A' + 16; ++c) names.emplace_back(1, c);
    names.insert(names.end(), {"·", "|"});
    return names;
  }
  for (char c = 'a'; c < 'f'; ++c) names.emplace_back(1, c);
  for (int i = 0; i <= 10; ++i) names.push_back(std::to_string(i));
  names.insert(names.end(), {"=", ";", ".", "++;", "print"});
  return names;
}

std::string map_as_text(Trainer& trainer, const Sample& sample,
                        const std::vector<std::string>& names) {
  const Index asked = asked_of(sample);
  const std::string& name = names[std::size_t(sample.tokens[std::size_t(asked)])];
  std::string out = words("query %ld, \"%s\": the three keys with most weight, and what was "
                          "counted from there to the query\n\n| layer, head | key: weight, "
                          "position |\n|---|---|\n",
                          long(asked), name.c_str());
  for (const Head& head : heads_of(trainer, sample)) {
    out += words("| %ld, %ld |", long(head.layer), long(head.head));
    Eigen::RowVectorXf row = head.weights.row(asked);
    for (int rank = 0; rank < 3; ++rank) {
      Index key = 0;
      const float weight = row.maxCoeff(&key);
      if (weight < 0.01f) break;
      row(key) = -1;
      out += words("%s %ld \"%s\": %.2f, %.2f", rank == 0 ? "" : ";", long(key),
                   names[std::size_t(sample.tokens[std::size_t(key)])].c_str(), double{weight},
                   double{head.positions(asked, key)});
    }
    out += " |\n";
  }
  return out;
}

std::string map_as_svg(Trainer& trainer, const Sample& sample,
                       const std::vector<std::string>& names, const std::string& title) {
  const ModelShape& shape = trainer.model().shape();
  const std::vector<Head> heads = heads_of(trainer, sample);
  const Index n = Index(sample.tokens.size());
  const double cell = std::max(3.0, 300.0 / static_cast<double>(n));
  const double side = cell * static_cast<double>(n), gap = 36, left = 44, top = 92;
  const double tall = side + 76;
  const auto columns = static_cast<double>(2 * shape.heads);
  Svg svg(left + columns * (side + gap), top + static_cast<double>(shape.layers) * tall);
  svg.text(left, 32, "start", title, 19, true, "#14181d");
  svg.text(left, 53, "start",
           "Per head: weights (left; queries downwards, keys to the right, darker is more) and the "
           "positions counted for them (right; white 0, full colour N - 1).");
  for (const Head& head : heads) {
    const double y0 = top + static_cast<double>(head.layer) * tall;
    for (int kind = 0; kind < 2; ++kind) {
      const double x0 = left + static_cast<double>(2 * head.head + kind) * (side + gap);
      const float most = head.positions.maxCoeff();
      svg.text(x0, y0 - 8, "start",
               kind == 0 ? words("layer %ld, head %ld: weights", long(head.layer), long(head.head))
                         : words("counted, up to %.1f of %ld", double{most},
                                 long(shape.vectors - 1)));
      svg.rect(x0, y0, side, side, "#f4f5f7");
      for (Index i = 0; i < n; ++i) {
        // Equal neighbours in one rectangle.
        const auto shade = [&](Index j) {
          const float value = kind == 0 ? std::pow(head.weights(i, j), 0.5f)
                                        : head.positions(i, j) / std::max(most, 1e-6f);
          return int(std::lround(std::min(value, 1.0f) * 20));
        };
        for (Index j = 0; j <= i;) {
          Index next = j + 1;
          while (next <= i && shade(next) == shade(j)) ++next;
          if (shade(j) > 0) {
            svg.rect(x0 + cell * static_cast<double>(j), y0 + cell * static_cast<double>(i),
                     cell * static_cast<double>(next - j), cell, kind == 0 ? "#1c4fa1" : "#9c36b5",
                     shade(j) / 20.0);
          }
          j = next;
        }
      }
      if (cell >= 7) {
        for (Index i = 0; i < n; ++i) {
          const std::string& name = names[std::size_t(sample.tokens[std::size_t(i)])];
          const double middle = cell * (static_cast<double>(i) + 0.5);
          svg.text(x0 + middle, y0 + side + 10, "middle", name, 8);
          svg.text(x0 - 4, y0 + middle + 3, "end", name, 8);
        }
      }
    }
  }
  return svg.finish();
}

}  // namespace tasks

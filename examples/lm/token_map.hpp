// SPDX-License-Identifier: Apache-2.0
//
// A square of attention weights as SVG, with a token beside each row (query) and above each column
// (key). The area of a square is the weight: 1 fills its cell, 0.01 is a dot.

#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "../count/svg.hpp"
#include "weights.hpp"

namespace lm {

// weights [queries, keys], queries and keys being the same tokens.
template <class Weights>
std::string draw_tokens(const std::string& title, const std::vector<std::string>& labels,
                        const Weights& weights) {
  constexpr double kCell = 14, kLabel = 120, kTop = 170, kRight = 40;
  constexpr float kFaintest = 5e-4f;
  constexpr std::size_t kLongest = 18;
  const double side = kCell * static_cast<double>(labels.size());
  const double width = std::max(kLabel + side + kRight, 560.0), height = kTop + side + 50;
  std::string svg;
  const auto print = [&](const char* format, auto... values) {
    char line[512];
    std::snprintf(line, sizeof line, format, values...);
    svg += line;
  };
  print("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
        "height=\"%.0f\" font-family=\"'DejaVu Sans', Verdana, sans-serif\" font-size=\"10\" "
        "fill=\"#33383f\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        width, height, width, height);
  svg += "<text x=\"16\" y=\"28\" font-size=\"18\" font-weight=\"bold\">" + count::escape(title) +
         "</text>\n<text x=\"16\" y=\"47\" font-size=\"11\">rows: the token that looks; columns: "
         "the token it looks at; the area of a square is the attention weight</text>\n";

  // What a query may see, then what it looks at.
  print("<path d=\"M%.1f %.1fV%.1f", kLabel, kTop, kTop + side);
  print("H%.1f", kLabel + side);
  for (std::size_t i = labels.size(); i-- > 0;) {
    print("V%.1fH%.1f", kTop + kCell * static_cast<double>(i),
          kLabel + kCell * static_cast<double>(i));
  }
  svg += "Z\" fill=\"#f3f5f8\" stroke=\"#c9ced6\"/>\n<g fill=\"#2668b4\">\n";
  for (Index i = 0; i < weights.rows(); ++i) {
    for (Index j = 0; j <= i; ++j) {
      const float weight = weights(i, j);
      if (!(weight >= kFaintest)) continue;
      const double edge = (kCell - 1) * std::sqrt(static_cast<double>(weight));
      const double x = kLabel + kCell * (static_cast<double>(j) + 0.5) - edge / 2;
      const double y = kTop + kCell * (static_cast<double>(i) + 0.5) - edge / 2;
      print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", x, y,
            std::max(edge, 0.5), std::max(edge, 0.5));
    }
  }
  svg += "</g>\n";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    // A label is cut between characters.
    std::u32string word = count::decode(labels[i]);
    if (word.size() > kLongest) word = word.substr(0, kLongest - 1) + U'…';
    std::string text;
    for (const char32_t c : word) count::append(text, c);
    text = count::escape(text);
    const double middle = kCell * (static_cast<double>(i) + 0.5);
    print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", kLabel - 5, kTop + middle + 3.5);
    svg += text + "</text>\n";
    print("<text transform=\"translate(%.1f,%.1f) rotate(-60)\">", kLabel + middle + 3, kTop - 6);
    svg += text + "</text>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace lm

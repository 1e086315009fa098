// SPDX-License-Identifier: Apache-2.0
//
// A drawing as SVG, piece by piece: what the pictures of heed-lm have in common.

#pragma once

#include <cstdio>
#include <string>

#include "../count/svg.hpp"

namespace lm {

class Picture {
 public:
  Picture(double width, double height, const std::string& title, const std::string& subtitle) {
    print("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
          "height=\"%.0f\" font-family=\"'DejaVu Sans', Verdana, sans-serif\" font-size=\"12\" "
          "fill=\"#33383f\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
          width, height, width, height);
    text(16, 30, "start", title, "font-size=\"18\" font-weight=\"bold\" fill=\"#14181d\"");
    text(16, 51, "start", subtitle);
  }

  void line(double x1, double y1, double x2, double y2, const char* attributes) {
    print("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2,
          attributes);
  }
  void rect(double x, double y, double width, double height, const std::string& fill) {
    print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, width,
          height, fill.c_str());
  }
  void circle(double x, double y, double radius, const char* fill) {
    print("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, radius, fill);
  }
  // anchor: start, middle or end. words: UTF-8, written as they are.
  void text(double x, double y, const char* anchor, const std::string& words,
            const char* attributes = "") {
    print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>", x, y, anchor, attributes);
    svg_ += count::escape(words) + "</text>\n";
  }
  // Upwards, around its middle.
  void turned_text(double x, double y, const std::string& words) {
    print("<text transform=\"translate(%.1f,%.1f) rotate(-90)\" text-anchor=\"middle\">", x, y);
    svg_ += count::escape(words) + "</text>\n";
  }
  std::string done() const { return svg_ + "</svg>\n"; }

 private:
  template <class... T>
  void print(const char* format, T... values) {
    char line[512];
    std::snprintf(line, sizeof line, format, values...);
    svg_ += line;
  }

  std::string svg_;
};

// Of light and dark blue, 0 to 1.
inline std::string shade(double share) {
  constexpr int kFrom[] = {243, 245, 248}, kTo[] = {38, 104, 180};
  int rgb[3];
  for (int c = 0; c < 3; ++c) {
    rgb[c] = static_cast<int>(std::lround(kFrom[c] + share * (kTo[c] - kFrom[c])));
  }
  char hex[8];
  std::snprintf(hex, sizeof hex, "#%02x%02x%02x", unsigned(rgb[0]) & 0xFFu,
                unsigned(rgb[1]) & 0xFFu, unsigned(rgb[2]) & 0xFFu);
  return hex;
}

}  // namespace lm

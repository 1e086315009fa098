// SPDX-License-Identifier: Apache-2.0
//
// The few shapes that the pictures here are made of.

#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

namespace tasks {

class Svg {
 public:
  Svg(double width, double height) {
    print("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
          "height=\"%.0f\" font-family=\"'DejaVu Sans', Verdana, sans-serif\" font-size=\"12\" "
          "fill=\"#33383f\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
          width, height, width, height);
  }
  void rect(double x, double y, double width, double height, std::string_view fill,
            double opacity = 1) {
    print("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"", x, y, width,
          height, std::string(fill).c_str());
    if (opacity < 1) print(" fill-opacity=\"%.3f\"", opacity);
    body_ += "/>\n";
  }
  void line(double x1, double y1, double x2, double y2, std::string_view stroke, double width = 1,
            bool dashed = false) {
    print("<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\" stroke-width=\"%.1f\"%s/>\n", x1, y1, x2,
          y2, std::string(stroke).c_str(), width, dashed ? " stroke-dasharray=\"4 3\"" : "");
  }
  void circle(double x, double y, double radius, std::string_view fill) {
    print("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" stroke=\"#fff\" "
          "stroke-width=\"0.8\"/>\n",
          x, y, radius, std::string(fill).c_str());
  }
  // A rhombus, empty inside: a figure that is not ours.
  void mark(double x, double y, double radius, std::string_view stroke) {
    print("<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\" fill=\"#fff\" stroke=\"%s\" "
          "stroke-width=\"1.6\"/>\n",
          x, y - radius, radius, radius, -radius, radius, -radius, -radius,
          std::string(stroke).c_str());
  }
  // anchor: start, middle, end.
  void text(double x, double y, std::string_view anchor, std::string_view words, double size = 12,
            bool bold = false, std::string_view fill = "#33383f") {
    print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%.1f\" fill=\"%s\"%s>", x, y,
          std::string(anchor).c_str(), size, std::string(fill).c_str(),
          bold ? " font-weight=\"bold\"" : "");
    body_ += escaped(words) + "</text>\n";
  }
  std::string finish() const { return body_ + "</svg>\n"; }

 private:
  template <class... Values>
  void print(const char* format, Values... values) {
    std::array<char, 512> line;
    std::snprintf(line.data(), line.size(), format, values...);
    body_ += line.data();
  }
  static std::string escaped(std::string_view words) {
    std::string out;
    for (const char c : words) {
      out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    }
    return out;
  }

  std::string body_;
};

// Colours that differ in brightness too, one per encoding, in the order of Pe.
inline constexpr std::array<std::string_view, 8> kColours{
    "#868e96", "#e8590c", "#f2b705", "#2f9e44", "#8ce99a", "#1c4fa1", "#74c0fc", "#9c36b5"};

}  // namespace tasks

// SPDX-License-Identifier: Apache-2.0
//
// Attention maps as one SVG: panels side by side with the same axes, the last few hundred queries
// downwards, keys to the right. Cells are pooled: each shows the largest weight in a square of
// `pool` x `pool` characters, and colours follow weight^0.4, so that faint weights are seen too.
// Frames mark where the right answer stands.

#pragma once

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text.hpp"

namespace count {

// Thousands with commas.
inline std::string number(Index value) {
  std::string digits = std::to_string(value);
  for (auto i = static_cast<Index>(digits.size()) - 3; i > (value < 0 ? 1 : 0); i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

// Text as XML holds it. It is valid UTF-8 already; what XML forbids even so becomes U+FFFD.
inline std::string escape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::string_view three = text.substr(i, 3);
    if (c < 0x20 || c == 0x7F) {
      out += "\uFFFD";
    } else if (three == "\xEF\xBF\xBE" || three == "\xEF\xBF\xBF") {  // U+FFFE, U+FFFF
      out += "\uFFFD";
      i += 2;
    } else {
      out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, text[i]);
    }
  }
  return out;
}

// What all panels show: queries [first_query, end), keys [first_key, end).
struct Window {
  Index first_query, first_key, end, pool;
  Index rows() const { return (end - first_query + pool - 1) / pool; }
  Index columns() const { return (end - first_key + pool - 1) / pool; }
};

struct Panel {
  std::string title, subtitle;
  Eigen::ArrayXXf cells;  // [rows, columns], the largest weight

  explicit Panel(const Window& w) : cells(Eigen::ArrayXXf::Zero(w.rows(), w.columns())) {}
  void add(const Window& w, Index query, const Eigen::Map<const Eigen::ArrayXf>& weights) {
    if (query < w.first_query) return;
    for (Index key = w.first_key; key <= query; ++key) {
      float& cell = cells((query - w.first_query) / w.pool, (key - w.first_key) / w.pool);
      cell = std::max(cell, weights(key));
    }
  }
};

// A step between ticks: 1, 2 or 5 times a power of ten, at most `wanted` of them over a length.
inline Index tick_step(Index length, Index wanted) {
  for (Index power = 1;; power *= 10) {
    for (const Index step : {power, 2 * power, 5 * power}) {
      if (length / step <= wanted) return step;
    }
  }
}

class Picture {
 public:
  Picture(std::string title, std::string subtitle, std::string answer, const Window& window)
      : title_(std::move(title)),
        subtitle_(std::move(subtitle)),
        answer_(std::move(answer)),
        w_(window) {}

  // places: the right key of each query. ends: ends of units, their labels beside them.
  std::string draw(const std::vector<Panel>& panels, const std::vector<Index>& places,
                   const std::vector<Index>& ends, const std::vector<std::string>& labels) {
    const auto n = static_cast<double>(panels.size());
    const double width = kLeft + n * (kWide + kGap) - kGap + kRight;
    print(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
        "height=\"%.0f\" font-family=\"'DejaVu Sans', Verdana, sans-serif\" font-size=\"12\" "
        "fill=\"#33383f\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        width, kHeight, width, kHeight);
    text(kLeft, 34, "start", title_, "font-size=\"21\" font-weight=\"bold\" fill=\"#14181d\"");
    text(kLeft, 57, "start", subtitle_, "font-size=\"13\"");
    for (std::size_t i = 0; i < panels.size(); ++i) {
      panel(kLeft + static_cast<double>(i) * (kWide + kGap), panels[i], places, ends);
    }
    query_axis();
    unit_labels(ends, labels);
    legend(width);
    return svg_ + "</svg>\n";
  }

 private:
  static constexpr double kLeft = 88, kRight = 30, kTop = 164, kWide = 420, kTall = 336, kGap = 34;
  static constexpr double kHeight = kTop + kTall + 132;
  static constexpr int kShades = 16;
  static constexpr double kPower = 0.4;
  static constexpr float kFaintest = 1e-3f;

  template <class... Values>
  void print(const char* format, Values... values) {
    std::array<char, 1024> line;
    std::snprintf(line.data(), line.size(), format, values...);
    svg_ += line.data();
  }
  void text(double x, double y, const char* anchor, const std::string& words,
            const std::string& more = "") {
    print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" ", x, y, anchor);
    svg_ += more + '>' + escape(words) + "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, const char* stroke) {
    print("<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, stroke);
  }
  double x_of(double left, Index key) const {
    return left + kWide * static_cast<double>(key - w_.first_key) /
                      static_cast<double>(w_.end - w_.first_key);
  }
  double y_of(Index query) const {
    return kTop + kTall * static_cast<double>(query - w_.first_query) /
                      static_cast<double>(w_.end - w_.first_query);
  }

  // From pale to dark blue.
  static std::string colour(int shade) {
    constexpr double stops[4][3] = {{228, 237, 247}, {140, 184, 224}, {38, 104, 180}, {6, 24, 74}};
    const double at = 3.0 * shade / (kShades - 1);
    const int i = std::min(2, static_cast<int>(at));
    int rgb[3];
    for (int c = 0; c < 3; ++c) {
      const double from = stops[i][c], to = stops[i + 1][c];
      rgb[c] = static_cast<int>(std::lround(from + (at - i) * (to - from)));
    }
    std::array<char, 8> hex;
    std::snprintf(hex.data(), hex.size(), "#%02x%02x%02x", unsigned(rgb[0]) & 0xFFu,
                  unsigned(rgb[1]) & 0xFFu, unsigned(rgb[2]) & 0xFFu);
    return hex.data();
  }
  static int shade_of(float weight) {  // -1: too faint to draw
    if (!(weight >= kFaintest)) return -1;
    return std::min(kShades - 1, static_cast<int>(std::pow(double(weight), kPower) * kShades));
  }

  void panel(double left, const Panel& p, const std::vector<Index>& places,
             const std::vector<Index>& ends) {
    print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#fbfcfd\"/>\n", left,
          kTop, kWide, kTall);
    for (const Index end : ends) {  // faint guides, so that empty columns can be told apart
      const double x = x_of(left, end) + 0.5 * cell_width();
      line(x, kTop, x, kTop + kTall, "#e6e9ed");
    }
    cells(left, p);
    // Later keys than the query are hidden.
    print("<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fZ\" fill=\"#d9dde2\"/>\n",
          x_of(left, w_.first_query), kTop, left + kWide, kTop, left + kWide, kTop + kTall,
          left + kWide, kTop + kTall);
    text(left + kWide - 9, kTop + 20, "end", "hidden: the future", "fill=\"#7b838d\"");
    frames(left, places);
    print(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
        "stroke=\"#59616b\"/>\n",
        left, kTop, kWide, kTall);
    text(left, kTop - 70, "start", p.title,
         "font-size=\"15\" font-weight=\"bold\" fill=\"#14181d\"");
    text(left, kTop - 52, "start", p.subtitle);
    key_axis(left);
  }

  double cell_width() const {
    return kWide * static_cast<double>(w_.pool) / static_cast<double>(w_.end - w_.first_key);
  }

  // One path per shade; cells of one shade below each other are one rectangle.
  void cells(double left, const Panel& p) {
    std::array<std::string, kShades> paths;
    for (Index c = 0; c < w_.columns(); ++c) {
      for (Index r = 0; r < w_.rows();) {
        const int shade = shade_of(p.cells(r, c));
        Index next = r + 1;
        while (next < w_.rows() && shade_of(p.cells(next, c)) == shade) ++next;
        if (shade >= 0) {
          const double x1 = x_of(left, w_.first_key + c * w_.pool);
          const double x2 = x_of(left, std::min(w_.end, w_.first_key + (c + 1) * w_.pool));
          const double y1 = y_of(w_.first_query + r * w_.pool);
          const double y2 = y_of(std::min(w_.end, w_.first_query + next * w_.pool));
          std::array<char, 96> path;
          std::snprintf(path.data(), path.size(), "M%.1f %.1fh%.1fv%.1fh%.1fz", x1, y1,
                        std::max(x2 - x1, 2.5), y2 - y1, -std::max(x2 - x1, 2.5));
          paths[static_cast<std::size_t>(shade)] += path.data();
        }
        r = next;
      }
    }
    for (int shade = 0; shade < kShades; ++shade) {
      const std::string& path = paths[static_cast<std::size_t>(shade)];
      if (!path.empty()) {
        svg_ += "<path fill=\"" + colour(shade) + "\" d=\"" + path + "\"/>\n";
      }
    }
  }

  // The right key, as a frame around each run of queries that share it.
  void frames(double left, const std::vector<Index>& places) {
    svg_ += "<path fill=\"none\" stroke=\"#e8590c\" stroke-width=\"1.2\" d=\"";
    for (Index i = w_.first_query; i < w_.end;) {
      const Index place = places[static_cast<std::size_t>(i)];
      Index next = i + 1;
      while (next < w_.end && places[static_cast<std::size_t>(next)] == place) ++next;
      if (place >= w_.first_key && y_of(next) - y_of(i) > 2.5) {
        const Index cell = w_.first_key + (place - w_.first_key) / w_.pool * w_.pool;
        const double wide = std::max(cell_width(), 2.5) + 5;
        print("M%.1f %.1fh%.1fv%.1fh%.1fz", x_of(left, cell) - 2.5, y_of(i) + 1, wide,
              y_of(next) - y_of(i) - 2, -wide);
      }
      i = next;
    }
    svg_ += "\"/>\n";
  }

  void key_axis(double left) {
    const Index step = tick_step(w_.end - w_.first_key, 5);
    for (Index i = (w_.first_key + step - 1) / step * step; i < w_.end; i += step) {
      line(x_of(left, i), kTop - 5, x_of(left, i), kTop, "#59616b");
      text(x_of(left, i), kTop - 9, "middle", number(i));
    }
    text(left + kWide / 2, kTop - 27, "middle", "key: the character that is looked at");
  }
  void query_axis() {
    const Index step = tick_step(w_.end - w_.first_query, 8);
    for (Index i = (w_.first_query + step - 1) / step * step; i < w_.end; i += step) {
      line(kLeft - 5, y_of(i), kLeft, y_of(i), "#59616b");
      text(kLeft - 9, y_of(i) + 4, "end", number(i));
    }
    turned_text(22, kTop + kTall / 2, -90, "middle", "query: the character that asks");
  }

  // How each unit ends, slanted below the first panel, as many as fit.
  void unit_labels(const std::vector<Index>& ends, const std::vector<std::string>& labels) {
    double free = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const double x = x_of(kLeft, ends[i]) + 0.5 * cell_width(), bottom = kTop + kTall;
      if (x < free) continue;
      free = x + 14;
      line(x, bottom, x, bottom + 5, "#59616b");
      turned_text(x + 4, bottom + 14, -45, "end", labels[i]);
    }
  }
  void turned_text(double x, double y, int angle, const char* anchor, const std::string& words) {
    std::array<char, 80> turn;
    std::snprintf(turn.data(), turn.size(), "transform=\"translate(%.1f,%.1f) rotate(%d)\"", x, y,
                  angle);
    text(0, 0, anchor, words, turn.data());
  }

  void legend(double width) {
    const double wide = kWide, left = width - kRight - wide, top = kTop + kTall + 48;
    for (int shade = 0; shade < kShades; ++shade) {
      print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"14\" fill=\"",
            left + wide * shade / kShades, top, wide / kShades + 0.3);
      svg_ += colour(shade) + "\"/>\n";
    }
    for (const double weight : {0.01, 0.05, 0.2, 0.5, 1.0}) {
      const double x = left + wide * std::pow(weight, kPower);
      line(x, top + 14, x, top + 19, "#59616b");
      std::array<char, 16> name;
      std::snprintf(name.data(), name.size(), "%g", weight);
      text(x, top + 33, "middle", name.data());
    }
    const std::string square = number(w_.pool) + " × " + number(w_.pool) + " characters";
    text(left, top - 9, "start",
         w_.pool == 1 ? "attention weight" : "attention weight, the largest in " + square);
    print(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"20\" fill=\"none\" "
        "stroke=\"#e8590c\" stroke-width=\"1.2\"/>\n",
        kLeft + kWide + kGap + 0.5, top - 3);
    text(kLeft + kWide + kGap + 18, top + 12, "start", "the right place: " + answer_);
  }

  std::string title_, subtitle_, answer_, svg_;
  Window w_;
};

}  // namespace count

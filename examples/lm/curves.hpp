// SPDX-License-Identifier: Apache-2.0
//
// Curves of positive numbers as SVG, both axes logarithmic: x to the base 2, with a tick at each x
// that was measured. A curve without an x is one number for all of them, a dashed line.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "picture.hpp"

namespace lm {

struct Curve {
  std::string name;
  std::vector<double> x, y;  // as many of each, or no x and one y; what is not finite is left out
};

struct Axes {
  std::string title, subtitle, x, y;
  std::vector<double> ticks;  // of x
};

namespace detail {

// 1, 2, 5 times powers of ten, or finer or coarser, so that a handful lie in [low, high].
inline std::vector<double> log_ticks(double low, double high) {
  const std::vector<std::vector<double>> steps{
      {1}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 8},
      {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9}};
  std::vector<double> ticks;
  for (const std::vector<double>& step : steps) {
    ticks.clear();
    for (double power = std::floor(std::log10(low)); power <= std::log10(high); ++power) {
      for (const double factor : step) {
        const double tick = factor * std::pow(10, power);
        if (tick >= low && tick <= high) ticks.push_back(tick);
      }
    }
    if (ticks.size() >= 4) break;
  }
  return ticks;
}

class CurvePicture {
 public:
  CurvePicture(const Axes& axes, const std::vector<Curve>& curves)
      : axes_(axes), curves_(curves),
        picture_(kLeft + kWide + kLegend, kTop + kTall + 60, axes.title, axes.subtitle) {
    low_x_ = std::log2(*std::min_element(axes.ticks.begin(), axes.ticks.end())) - 0.2;
    high_x_ = std::log2(*std::max_element(axes.ticks.begin(), axes.ticks.end())) + 0.2;
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (const Curve& curve : curves) {
      for (const double y : curve.y) {
        if (!drawable(y)) continue;
        low = std::min(low, y);
        high = std::max(high, y);
      }
    }
    if (high == 0) low = 1, high = 10;  // nothing to draw yet
    const double margin = std::max(0.06 * std::log(high / low), 0.02);
    low_y_ = std::log(low) - margin;
    high_y_ = std::log(high) + margin;
  }

  std::string draw() {
    for (const double tick : log_ticks(std::exp(low_y_), std::exp(high_y_))) {
      char name[32];
      std::snprintf(name, sizeof name, "%.10g", tick);
      picture_.line(kLeft, y(tick), kLeft + kWide, y(tick), "stroke=\"#e6e9ed\"");
      picture_.text(kLeft - 9, y(tick) + 4, "end", name);
    }
    for (const double tick : axes_.ticks) {
      picture_.line(x(tick), kTop, x(tick), kTop + kTall, "stroke=\"#e6e9ed\"");
      picture_.text(x(tick), kTop + kTall + 18, "middle", count::number(count::Index(tick)));
    }
    for (const double at : {kTop, kTop + kTall}) {
      picture_.line(kLeft, at, kLeft + kWide, at, "stroke=\"#59616b\"");
    }
    for (const double at : {kLeft, kLeft + kWide}) {
      picture_.line(at, kTop, at, kTop + kTall, "stroke=\"#59616b\"");
    }
    picture_.text(kLeft + kWide / 2, kTop + kTall + 42, "middle", axes_.x);
    picture_.turned_text(22, kTop + kTall / 2, axes_.y);
    for (std::size_t i = 0; i < curves_.size(); ++i) curve(i);
    return picture_.done();
  }

 private:
  static constexpr double kLeft = 84, kTop = 74, kWide = 520, kTall = 360, kLegend = 170;
  // Okabe and Ito's, which colour-blind people tell apart.
  static constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                             "#e69f00", "#56b4e9", "#7f5539"};
  static bool drawable(double y) { return std::isfinite(y) && y > 0; }

  double x(double value) const {
    return kLeft + kWide * (std::log2(value) - low_x_) / (high_x_ - low_x_);
  }
  double y(double value) const {
    return kTop + kTall * (high_y_ - std::log(value)) / (high_y_ - low_y_);
  }

  void curve(std::size_t number) {
    const Curve& curve = curves_[number];
    const bool level = curve.x.empty();
    const char* const colour = level ? "#33383f" : kColours[number % std::size(kColours)];
    const std::string stroke = std::string("stroke-width=\"2\" stroke=\"") + colour + "\"" +
                               (level ? " stroke-dasharray=\"7 5\"" : "");
    const double left = kLeft + kWide + 18, at = kTop + 12 + 22 * static_cast<double>(number);
    picture_.line(left, at, left + 26, at, stroke.c_str());
    if (!level) picture_.circle(left + 13, at, 3.5, colour);
    picture_.text(left + 34, at + 4, "start", curve.name);

    if (level) {
      if (curve.y.empty() || !drawable(curve.y.front())) return;
      picture_.line(kLeft, y(curve.y.front()), kLeft + kWide, y(curve.y.front()), stroke.c_str());
      return;
    }
    std::vector<std::pair<double, double>> points;
    for (std::size_t i = 0; i < curve.x.size(); ++i) {
      if (drawable(curve.y[i])) points.emplace_back(curve.x[i], curve.y[i]);
    }
    std::sort(points.begin(), points.end());
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto [at_x, at_y] = points[i];
      picture_.circle(x(at_x), y(at_y), 3.5, colour);
      if (i == 0) continue;
      const auto [before_x, before_y] = points[i - 1];
      picture_.line(x(before_x), y(before_y), x(at_x), y(at_y), stroke.c_str());
    }
  }

  const Axes& axes_;
  const std::vector<Curve>& curves_;
  Picture picture_;
  double low_x_ = 0, high_x_ = 0, low_y_ = 0, high_y_ = 0;
};

}  // namespace detail

inline std::string draw_curves(const Axes& axes, const std::vector<Curve>& curves) {
  return detail::CurvePicture(axes, curves).draw();
}

}  // namespace lm

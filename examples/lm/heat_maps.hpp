// SPDX-License-Identifier: Apache-2.0
//
// Shares from 0 to 1 as tables of coloured cells, one panel each, as SVG.

#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "picture.hpp"

namespace lm {

struct HeatMap {
  std::string title;
  std::vector<std::vector<double>> share;       // [row][column]; below 0: not known
  std::vector<std::vector<std::string>> words;  // what stands in the cell
};

struct HeatAxes {
  std::string title, subtitle, row, column;     // row and column: what they are
  std::vector<std::string> rows, columns;
};

inline std::string draw_heat_maps(const HeatAxes& axes, const std::vector<HeatMap>& maps) {
  constexpr double kCell = 44, kTall = 32, kLeft = 74, kTop = 84, kAbove = 46, kGap = 30;
  constexpr std::size_t kAcross = 3;
  const double wide = kCell * static_cast<double>(axes.columns.size());
  const double tall = kTall * static_cast<double>(axes.rows.size());
  const double step_x = kLeft + wide + kGap, step_y = kAbove + tall + 24;
  const std::size_t down = (maps.size() + kAcross - 1) / kAcross;
  const double width = step_x * static_cast<double>(std::min(kAcross, maps.size()));
  Picture picture(std::max(width, 620.0), kTop + step_y * static_cast<double>(down), axes.title,
                  axes.subtitle);
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const double left = kLeft + step_x * static_cast<double>(i % kAcross);
    const double top = kTop + kAbove + step_y * static_cast<double>(i / kAcross);
    picture.text(left, top - 36, "start", maps[i].title, "font-weight=\"bold\"");
    picture.text(left - 10, top - 9, "end", axes.row);
    picture.text(left + wide / 2, top - 20, "middle", axes.column, "font-size=\"10\"");
    for (std::size_t column = 0; column < axes.columns.size(); ++column) {
      picture.text(left + kCell * (static_cast<double>(column) + 0.5), top - 6, "middle",
                   axes.columns[column]);
    }
    for (std::size_t row = 0; row < axes.rows.size(); ++row) {
      const double y = top + kTall * static_cast<double>(row);
      picture.text(left - 10, y + kTall / 2 + 4, "end", axes.rows[row]);
      for (std::size_t column = 0; column < axes.columns.size(); ++column) {
        const double x = left + kCell * static_cast<double>(column);
        const double share = maps[i].share[row][column];
        picture.rect(x + 1, y + 1, kCell - 2, kTall - 2, share < 0 ? "#ffffff" : shade(share));
        picture.text(x + kCell / 2, y + kTall / 2 + 4, "middle", maps[i].words[row][column],
                     share > 0.5 ? "fill=\"#fff\"" : "");
      }
    }
  }
  return picture.done();
}

}  // namespace lm

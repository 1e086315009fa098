// SPDX-License-Identifier: Apache-2.0
//
// One table and one picture of perplexity and attention entropy by length.

#pragma once

#include <cmath>

#include "report.hpp"
#include "svg.hpp"

namespace tasks {

// At one length; no number where an encoding cannot go that far.
struct Reading {
  double perplexity = NAN;
  double entropy = 0;   // bits, mean over layers, heads, queries
};

struct Line {
  std::string name;
  Pe pe;
  std::vector<Reading> readings;   // one per length
};

template <class... Values>
std::string formatted(const char* pattern, Values... values) {
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

inline std::string as_row(const Line& line) {
  std::string row = formatted("| %-18s |", line.name.c_str());
  for (const Reading& r : line.readings) {
    row += std::isnan(r.perplexity) ? formatted(" %-14s |", "-")
                                    : formatted(" %7.3f (%4.2f) |", r.perplexity, r.entropy);
  }
  return row;
}

inline std::string as_text(const std::vector<Index>& lengths, const std::vector<Line>& lines) {
  std::string out = formatted("\n| %-18s |", "perplexity (bits)");
  for (const Index n : lengths) out += formatted(" %-14ld |", long(n));
  out += "\n|" + std::string(20, '-') + '|';
  for (std::size_t i = 0; i < lengths.size(); ++i) out += std::string(16, '-') + '|';
  for (const Line& line : lines) out += '\n' + as_row(line);
  return out + '\n';
}

inline std::string as_csv(const std::vector<Index>& lengths, const std::vector<Line>& lines,
                          std::uint64_t seed) {
  std::string out = "encoding,seed,length,perplexity,entropy_bits\n";
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (std::isnan(line.readings[i].perplexity)) continue;
      out += formatted("\"%s\",%lu,%ld,%.5f,%.5f\n", line.name.c_str(),
                       static_cast<unsigned long>(seed), long(lengths[i]),
                       line.readings[i].perplexity, line.readings[i].entropy);
    }
  }
  return out;
}

// Two panels over the logarithm of the length. Fitted variants of NoPE are dashed.
inline std::string as_svg(const std::vector<Index>& lengths, const std::vector<Line>& lines,
                          Index trained) {
  constexpr double kTop = 84, kTall = 300, kWide = 330, kLeft = 62, kGap = 76;
  Svg svg(kLeft + 2 * kWide + kGap + 210, kTop + kTall + 56);
  svg.text(kLeft, 30, "start", "Longer than in training", 19, true, "#14181d");
  svg.text(kLeft, 50, "start", formatted("trained on %ld bytes, the last bytes of each window "
                                         "are scored", long(trained)));
  const auto doublings = [&](std::size_t i) {
    return std::log2(static_cast<double>(lengths[i]) / static_cast<double>(lengths[0]));
  };
  const double span = std::max(doublings(lengths.size() - 1), 1e-9);
  for (int panel = 0; panel < 2; ++panel) {
    double low = INFINITY, high = -INFINITY, first = INFINITY;
    const auto value = [&](const Reading& r) { return panel == 0 ? r.perplexity : r.entropy; };
    for (const Line& line : lines) {
      for (const Reading& r : line.readings) {
        if (std::isnan(r.perplexity)) continue;
        low = std::min(low, value(r));
        high = std::max(high, value(r));
      }
      first = std::min(first, value(line.readings[0]));
    }
    if (panel == 0) high = std::min(high, 4 * first);   // what explodes leaves the picture
    const double margin = 0.05 * (high - low);
    low -= margin;
    high += margin;
    const double left = kLeft + panel * (kWide + kGap);
    const auto x = [&](std::size_t i) { return left + kWide * doublings(i) / span; };
    const auto y = [&](double v) {
      return kTop + kTall * (high - std::min(v, high)) / (high - low);
    };
    for (int tick = 0; tick <= 5; ++tick) {
      const double v = low + (high - low) * tick / 5;
      svg.line(left, y(v), left + kWide, y(v), "#e3e6ea");
      svg.text(left - 8, y(v) + 4, "end", formatted("%.2f", v), 11);
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      svg.line(x(i), kTop + kTall, x(i), kTop + kTall + 5, "#59616b");
      svg.text(x(i), kTop + kTall + 20, "middle", std::to_string(lengths[i]));
    }
    svg.text(left + kWide / 2, kTop + kTall + 40, "middle", "length of the context, bytes");
    svg.text(left, kTop - 10, "start",
             panel == 0 ? "perplexity per byte" : "mean attention entropy, bits", 13, true);
    double row = kTop + 8;
    for (const Line& line : lines) {
      const std::string_view colour = kColours[std::size_t(line.pe)];
      const bool fitted = line.name.find(',') != std::string::npos;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (std::isnan(line.readings[i].perplexity)) break;
        const double here = value(line.readings[i]);
        if (i > 0) {
          const double before = value(line.readings[i - 1]);
          svg.line(x(i - 1), y(before), x(i), y(here), colour, 2, fitted);
        }
        if (here <= high) svg.circle(x(i), y(here), 3.5, colour);
      }
      if (panel == 1) {
        svg.line(left + kWide + 18, row, left + kWide + 40, row, colour, 2, fitted);
        svg.text(left + kWide + 46, row + 4, "start", line.name);
        row += 20;
      }
    }
  }
  return svg.finish();
}

}  // namespace tasks

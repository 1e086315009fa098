// SPDX-License-Identifier: Apache-2.0
//
// Tables and the picture of errors.

#include "report.hpp"

#include <cstdio>
#include <fstream>

#include "svg.hpp"

namespace tasks {

namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 256> text;
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

// The runs of one problem and encoding.
struct Group {
  std::string problem;
  Pe pe;
  std::vector<const Run*> runs;

  double mean(std::size_t set) const {
    double sum = 0;
    for (const Run* run : runs) sum += run->error(set);
    return sum / static_cast<double>(runs.size());
  }
  double least(std::size_t set) const {
    double value = 100;
    for (const Run* run : runs) value = std::min(value, run->error(set));
    return value;
  }
  double most(std::size_t set) const {
    double value = 0;
    for (const Run* run : runs) value = std::max(value, run->error(set));
    return value;
  }
};

std::vector<Group> groups_of(const std::vector<Run>& runs) {
  std::vector<Group> groups;
  for (const Run& run : runs) {
    auto same = [&](const Group& g) { return g.problem == run.problem && g.pe == run.pe; };
    auto at = std::find_if(groups.begin(), groups.end(), same);
    if (at == groups.end()) at = groups.insert(at, {run.problem, run.pe, {}});
    at->runs.push_back(&run);
  }
  return groups;
}

std::string paper_of(const Group& g, std::size_t set) {
  const auto error = paper_error(g.problem, g.runs[0]->sets[set], g.pe);
  return error ? format("%.1f", *error) : "-";
}

}  // namespace

double Run::error(std::size_t set) const {
  const Score& s = scores[set];
  const Index wrong = by_sequence ? s.wrong_sequences : s.wrong;
  const Index all = by_sequence ? s.sequences : s.targets;
  return 100 * static_cast<double>(wrong) / static_cast<double>(std::max<Index>(all, 1));
}

std::string as_text(const std::vector<Run>& runs) {
  std::string out;
  std::string problem;
  for (const Group& g : groups_of(runs)) {
    const Run& first = *g.runs[0];
    if (g.problem != problem) {
      problem = g.problem;
      out += format("\n%s: test error in per cent, mean of %ld seed%s (least - most) [the paper's, "
                    "at its own size]\n\n| %-15s |", problem.c_str(), long(g.runs.size()),
                    g.runs.size() == 1 ? "" : "s", "encoding");
      for (const auto& set : first.sets) out += format(" %-26s |", set.c_str());
      out += format(" %-15s | %7s |\n|%s|", "training loss", "CPU s", std::string(17, '-').c_str());
      for (std::size_t i = 0; i < first.sets.size(); ++i) out += std::string(28, '-') + '|';
      out += std::string(17, '-') + '|' + std::string(9, '-') + "|\n";
    }
    out += format("| %-15s |", name_of(g.pe).c_str());
    for (std::size_t set = 0; set < first.sets.size(); ++set) {
      std::string cell = format("%.2f", g.mean(set));
      if (g.runs.size() > 1) cell += format(" (%.2f - %.2f)", g.least(set), g.most(set));
      out += format(" %-26s |", (cell + " [" + paper_of(g, set) + "]").c_str());
    }
    double before = 0, after = 0, seconds = 0;
    for (const Run* run : g.runs) {
      before += run->first_loss / static_cast<double>(g.runs.size());
      after += run->last_loss / static_cast<double>(g.runs.size());
      seconds += run->seconds / static_cast<double>(g.runs.size());
    }
    out += format(" %-15s | %7.0f |\n", format("%.3f > %.4f", before, after).c_str(), seconds);
  }
  return out;
}

std::string as_csv(const std::vector<Run>& runs) {
  std::string out =
      "problem,encoding,seed,set,error_percent,paper_percent,wrong,asked,by_sequence,mean_loss,"
      "steps,parameters,cpu_seconds,first_loss,last_loss\n";
  for (const Run& run : runs) {
    for (std::size_t i = 0; i < run.sets.size(); ++i) {
      const Score& s = run.scores[i];
      const auto paper = paper_error(run.problem, run.sets[i], run.pe);
      out += format("%s,%s,%lu,%s,%.4f,%s,%ld,%ld,%d,%.5f,%ld,%ld,%.1f,%.5f,%.5f\n",
                    run.problem.c_str(), name_of(run.pe).c_str(),
                    static_cast<unsigned long>(run.seed), run.sets[i].c_str(), run.error(i),
                    paper ? format("%.1f", *paper).c_str() : "",
                    long(run.by_sequence ? s.wrong_sequences : s.wrong),
                    long(run.by_sequence ? s.sequences : s.targets), int(run.by_sequence),
                    s.mean_loss(), long(run.steps), long(run.parameters), run.seconds,
                    run.first_loss, run.last_loss);
    }
  }
  return out;
}

// A group of bars per set: the mean, a dot per seed, a rhombus for the paper's figure.
std::string as_svg(const std::vector<Run>& runs, const std::string& title,
                   const std::string& subtitle) {
  const std::vector<Group> groups = groups_of(runs);
  std::vector<std::string> problems;
  for (const Group& g : groups) {
    if (std::find(problems.begin(), problems.end(), g.problem) == problems.end()) {
      problems.push_back(g.problem);
    }
  }
  constexpr double kLeft = 60, kTop = 96, kTall = 260, kBar = 22, kGap = 34;
  std::size_t bars = 0, sets = 0;
  for (const Group& g : groups) bars += g.runs[0]->sets.size();
  for (const auto& problem : problems) {
    for (const Group& g : groups) {
      if (g.problem == problem) {
        sets += g.runs[0]->sets.size();
        break;
      }
    }
  }
  const double inner = static_cast<double>(bars) * kBar + static_cast<double>(sets) * kGap;
  const double width = std::max(kLeft + inner + 180, 780.0), bottom = kTop + kTall;
  Svg svg(width, bottom + 64);
  svg.text(kLeft, 32, "start", title, 19, true, "#14181d");
  const std::size_t cut = subtitle.find("; error");   // in two lines
  svg.text(kLeft, 53, "start", subtitle.substr(0, cut), 12);
  if (cut != std::string::npos) svg.text(kLeft, 70, "start", subtitle.substr(cut + 2), 12);
  const auto y = [&](double error) { return bottom - kTall * error / 100; };
  for (int tick = 0; tick <= 100; tick += 20) {
    svg.line(kLeft, y(tick), kLeft + inner, y(tick), tick == 0 ? "#59616b" : "#e3e6ea");
    svg.text(kLeft - 8, y(tick) + 4, "end", format("%d %%", tick), 11);
  }
  double x = kLeft + kGap / 2;
  for (const auto& problem : problems) {
    const auto of = std::find_if(groups.begin(), groups.end(),
                                 [&](const Group& g) { return g.problem == problem; });
    for (std::size_t set = 0; set < of->runs[0]->sets.size(); ++set) {
      const double from = x;
      for (const Group& g : groups) {
        if (g.problem != problem) continue;
        const std::string_view colour = kColours[std::size_t(g.pe)];
        const double mean = g.mean(set);
        svg.rect(x + 2, y(mean), kBar - 4, bottom - y(mean), colour, 0.75);
        for (const Run* run : g.runs) svg.circle(x + kBar / 2, y(run->error(set)), 3, colour);
        if (const auto paper = paper_error(g.problem, g.runs[0]->sets[set], g.pe)) {
          svg.mark(x + kBar / 2, y(*paper), 5, colour);
        }
        x += kBar;
      }
      svg.text((from + x) / 2, bottom + 18, "middle", of->runs[0]->sets[set]);
      svg.text((from + x) / 2, bottom + 34, "middle", problem, 10);
      x += kGap;
    }
  }
  double row = kTop + 6;
  std::vector<Pe> shown;
  for (const Group& g : groups) {
    if (std::find(shown.begin(), shown.end(), g.pe) != shown.end()) continue;
    shown.push_back(g.pe);
    svg.rect(kLeft + inner + 24, row - 9, 12, 12, kColours[std::size_t(g.pe)], 0.75);
    svg.text(kLeft + inner + 42, row + 1, "start", name_of(g.pe));
    row += 20;
  }
  svg.circle(kLeft + inner + 30, row + 6, 3, "#59616b");
  svg.text(kLeft + inner + 42, row + 10, "start", "one seed");
  svg.mark(kLeft + inner + 30, row + 26, 5, "#59616b");
  svg.text(kLeft + inner + 42, row + 30, "start", "the paper");
  return svg.finish();
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace tasks

// SPDX-License-Identifier: Apache-2.0
//
// What a bounded cache keeps: a text is read token by token, and shown with the tokens marked that
// are held at the end; then how the layers differ, and which tokens stay longest (section 6 of the
// TOVA paper, arXiv 2401.06104).

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "../clock.hpp"
#include "../picture.hpp"
#include "commands.hpp"

namespace lm {
namespace {

// The layers and kv heads that are looked at.
struct Sets {
  Index first_layer, end_layer, kv_heads;
  Index count() const { return (end_layer - first_layer) * kv_heads; }
  template <class F>
  void each(F&& f) const {
    for (Index layer = first_layer; layer < end_layer; ++layer) {
      for (Index g = 0; g < kv_heads; ++g) f(layer, g);
    }
  }
};

// For each token, the share of the sets that hold it.
std::vector<double> shares(const KvCache& cache, const Sets& sets) {
  std::vector<double> share(static_cast<std::size_t>(cache.tokens()), 0.0);
  sets.each([&](Index layer, Index g) {
    const heed::List<Index> positions = cache.positions(layer, g);
    for (Index i = 0; i < positions.size; ++i) share[static_cast<std::size_t>(positions[i])] += 1;
  });
  for (double& one : share) one /= static_cast<double>(sets.count());
  return share;
}

// ------------------------------------------------------------------------------- the text, marked
// On a terminal, shades of blue; elsewhere brackets around what at least half of the sets hold.
std::string for_terminal(const std::vector<std::string>& pieces, const std::vector<double>& share) {
  constexpr const char* kShades[] = {"", "\033[48;5;189;38;5;16m", "\033[48;5;111;38;5;16m",
                                     "\033[48;5;27;38;5;231m"};
  constexpr const char* kPlain = "\033[0m";
  std::string text;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const int level = static_cast<int>(std::lround(3 * share[i]));
    bool coloured = false;
    for (const char c : pieces[i]) {  // a colour does not go across the end of a line
      const bool wanted = level > 0 && c != '\n';
      if (wanted != coloured) text += wanted ? kShades[level] : kPlain;
      coloured = wanted;
      text += c;
    }
    if (coloured) text += kPlain;
  }
  return text;
}
std::string with_brackets(const std::vector<std::string>& pieces,
                          const std::vector<double>& share) {
  std::string text;
  bool open = false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool held = share[i] >= 0.5;
    if (!held && open) text += "]";
    if (held && !open) {  // blanks stay outside
      const std::size_t blanks = std::min(pieces[i].find_first_not_of(" \n"), pieces[i].size());
      text += pieces[i].substr(0, blanks) + "[" + pieces[i].substr(blanks);
    } else {
      text += pieces[i];
    }
    open = held;
  }
  return open ? text + "]" : text;
}

std::string percent(double share) {
  return number(std::lround(100 * share)) + " %";
}
std::string escape_lines(const std::string& text) {  // line ends stay
  std::string out;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    out += count::escape(std::string_view(text).substr(begin, end - begin)) + "\n";
  }
  return out + count::escape(std::string_view(text).substr(begin));
}

// A page that needs nothing else: tokens shaded by their share, which a pointer over one tells.
std::string page(const std::string& title, const std::string& what,
                 const std::vector<std::string>& pieces, const std::vector<double>& share) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" +
      count::escape(title) + "</title>\n<style>\n"
      "body { max-width: 48em; margin: 2em auto; font-family: sans-serif; color: #14181d; "
      "background: #fff }\n"
      "pre { white-space: pre-wrap; font-family: Georgia, serif; line-height: 1.6 }\n";
  for (int tenth = 1; tenth <= 10; ++tenth) {
    html += ".s" + std::to_string(tenth) + " { background: " + shade(tenth * 0.1) +
            (tenth > 5 ? "; color: #fff }\n" : " }\n");
  }
  html += "</style>\n</head>\n<body>\n<h1>" + count::escape(title) + "</h1>\n<p>" +
          count::escape(what) + "</p>\n<pre>";
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const int tenth = static_cast<int>(std::ceil(10 * share[i] - 1e-9));
    html += "<span class=\"s" + std::to_string(tenth) + "\" title=\"token " +
            number(static_cast<Index>(i)) + ", " + percent(share[i]) + "\">" +
            escape_lines(pieces[i]) + "</span>";
  }
  return html + "</pre>\n</body>\n</html>\n";
}

// The same as a picture: letters of one width, lines broken where they are full.
std::string draw_text(const std::string& title, const std::string& what,
                      const std::vector<std::string>& pieces, const std::vector<double>& share) {
  constexpr double kLetter = 7.25, kLine = 19, kLeft = 16, kTop = 76;
  constexpr Index kColumns = 100;
  struct Part {
    std::string words;
    std::size_t token;
    Index line, column, width;
  };
  std::vector<Part> parts;
  Index line = 0, column = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    std::u32string part;
    const auto put = [&] {
      std::string words;
      for (const char32_t c : part) count::append(words, c);
      const Index width = static_cast<Index>(part.size());
      if (column > 0 && column + width > kColumns) ++line, column = 0;
      if (width > 0) parts.push_back({words, i, line, column, width});
      column += width;
      part.clear();
    };
    for (const char32_t c : count::decode(pieces[i])) {
      if (c != U'\n') {
        part += c;
        continue;
      }
      put();
      ++line, column = 0;
    }
    put();
  }
  Index longest = 0;
  for (const Part& part : parts) longest = std::max(longest, part.column + part.width);
  Picture picture(std::max(2 * kLeft + kLetter * static_cast<double>(longest), 560.0),
                  kTop + kLine * static_cast<double>(line + 1), title, what);
  for (const Part& part : parts) {
    const double held = share[part.token];
    const double x = kLeft + kLetter * static_cast<double>(part.column);
    const double y = kTop + kLine * static_cast<double>(part.line);
    const double width = kLetter * static_cast<double>(part.width);
    if (held > 0) picture.rect(x, y - 13, width, kLine - 2, shade(held));
    const std::size_t blanks = part.words.find_first_not_of(' ');
    if (blanks == std::string::npos) continue;
    char attributes[160];
    std::snprintf(attributes, sizeof attributes, "font-family=\"'DejaVu Sans Mono', monospace\" "
                  "textLength=\"%.1f\"%s", width - kLetter * static_cast<double>(blanks),
                  held > 0.5 ? " fill=\"#fff\"" : "");
    picture.text(x + kLetter * static_cast<double>(blanks), y, "start",
                 part.words.substr(blanks), attributes);
  }
  return picture.done();
}

// ------------------------------------------------------------------------------------- the tables
void print_layers(const KvCache& cache, const Sets& sets) {
  std::printf("\n| layer | recent, of those kept | first token kept | mean survival, tokens |\n"
              "|---:|---:|---:|---:|\n");
  for (Index layer = sets.first_layer; layer < sets.end_layer; ++layer) {
    double recent = 0, survival = 0;
    Index first = 0;
    for (Index g = 0; g < sets.kv_heads; ++g) {
      const heed::CacheStatistics s = cache.statistics(layer, g);
      recent += s.recent_share / static_cast<double>(sets.kv_heads);
      survival += s.mean_survival / static_cast<double>(sets.kv_heads);
      first += s.first_held ? 1 : 0;
    }
    const std::string held = first == 0 ? "no" : first == sets.kv_heads ? "yes"
                             : number(first) + " of " + number(sets.kv_heads) + " heads";
    std::printf("| %td | %s | %s | %.0f |\n", layer, percent(recent).c_str(), held.c_str(),
                survival);
  }
}

// By the token's id: how long its occurrences stay. One that is held to the end has stayed as long
// as it could be watched.
void print_survival(const Session& session, const std::vector<int>& ids, const KvCache& cache,
                    const Sets& sets, const Kept& options) {
  struct Stay {
    Index times = 0, held = 0;
    double tokens = 0;
    int id = 0;
  };
  std::map<int, Stay> stays;
  for (const int id : ids) ++stays[id].times;
  sets.each([&](Index layer, Index g) {
    const heed::List<Index> survival = cache.survival(layer, g);
    for (Index i = 0; i < survival.size; ++i) {
      Stay& stay = stays[ids[static_cast<std::size_t>(i)]];
      stay.held += survival[i] < 0 ? 1 : 0;
      stay.tokens += static_cast<double>(survival[i] < 0 ? survival.size - 1 - i : survival[i]);
    }
  });
  std::vector<Stay> order;
  for (auto& [id, stay] : stays) {
    stay.id = id;
    stay.tokens /= static_cast<double>(stay.times * sets.count());
    if (stay.times >= options.least) order.push_back(stay);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Stay& a, const Stay& b) { return a.tokens > b.tokens; });
  if (static_cast<Index>(order.size()) > options.count) {
    order.resize(static_cast<std::size_t>(options.count));
  }
  std::printf("\nWhat stays longest, of the tokens that occur %s times or more; one that is kept to"
              "\nthe end counts as long as it was watched:\n\n"
              "| token | times | mean survival, tokens | kept to the end |\n|---|---:|---:|---:|\n",
              number(options.least).c_str());
  for (const Stay& stay : order) {
    const double all = static_cast<double>(stay.times * sets.count());
    std::string word;
    for (const char c : label(session, stay.id)) {  // a bar would end the cell
      if (c == '|') word += '\\';
      word += c;
    }
    std::printf("| %s | %s | %.0f | %s |\n", word.c_str(), number(stay.times).c_str(), stay.tokens,
                percent(static_cast<double>(stay.held) / all).c_str());
  }
}

}  // namespace

void kept(Session& session, const Kept& options) {
  const Model& model = *session.model;
  CacheChoice choice = options.remembering.choice();
  choice.history = true;
  if (choice.policy == CacheChoice::Policy::full) {
    throw Error("--cache is full, which keeps everything; expected a policy and its budget, like "
                "tova:256");
  }
  const bool all = options.layer == -1;
  if (!all) check_range("--layer", options.layer, 0, model.layers() - 1);
  check_range("--tokens", options.tokens, 1, model.config().context);
  const std::vector<int> ids = read_text(session, options.text, options.tokens, 1);
  KvCache cache = model.new_cache(choice);
  check_writable(options.html);
  check_writable(options.svg);
  {
    Progress progress("tokens", static_cast<Index>(ids.size()));
    model.read(ids, cache, [&](Index first, const Matrix& vectors) {
      progress.at(first + vectors.rows());
    });
  }

  const Sets sets{all ? 0 : options.layer, all ? model.layers() : options.layer + 1,
                  model.config().kv_heads};
  const std::vector<double> share = shares(cache, sets);
  std::vector<std::string> pieces;
  for (const int id : ids) pieces.push_back(readable(session.tokenizer->piece(id)));
  const std::string title = "What " + choice.name() + " keeps";
  const std::string what =
      number(cache.tokens()) + " tokens, read one after the other; " +
      (all ? "the darker, the more of the " + number(model.layers()) + " layers keep it"
           : "what layer " + number(options.layer) + " keeps");
  if (!options.html.empty()) save(options.html, page(title, what, pieces, share));
  if (!options.svg.empty()) save(options.svg, draw_text(title, what, pieces, share));

  std::string heading = title + " of " + number(cache.tokens()) + " tokens";
  if (!all) heading += ", layer " + number(options.layer);
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  if (!terminal) heading += all ? "; in [brackets] what at least half keep" : "; in [brackets]";
  std::printf("%s.\n\n%s\n", heading.c_str(),
              (terminal ? for_terminal(pieces, share) : with_brackets(pieces, share)).c_str());
  print_layers(cache, sets);
  print_survival(session, ids, cache, sets, options);
}

}  // namespace lm

// SPDX-License-Identifier: Apache-2.0
//
// Whether a model finds a number again that a text of some length hides at some depth, by what its
// cache keeps. Read in one piece, a prompt is attended in full, and its last token, the question's,
// decides what stays: it can choose the number. Read token by token, nothing is known of the
// question while the number goes by. Greedy; the first number of the answer has to be the hidden
// one.

#include "../passkey.hpp"

#include <cstdio>
#include <fstream>
#include <random>

#include "../chat.hpp"
#include "../clock.hpp"
#include "../heat_maps.hpp"
#include "commands.hpp"

namespace lm {
namespace {

constexpr Index kAnswer = 8;  // tokens that are generated

struct Prompt {
  std::size_t length, depth;  // which, of the options
  std::string key;
  std::vector<int> ids;
  Index key_at = 0, key_end = 0;  // the tokens of the number where it is told first
};
struct Cell {
  Index right = 0, asked = 0;
  double held = 0;  // sum over the prompts: the share of the number that was kept for the question
};
struct Panel {
  CacheChoice choice;
  std::string name;
  std::vector<std::vector<Cell>> cells;  // [length][depth]
};

class Experiment {
 public:
  Experiment(Session& session, const Passkey& options) : session_(session), options_(options) {
    check();
    std::mt19937_64 random(options.seed);
    for (std::size_t length = 0; length < options.lengths.size(); ++length) {
      for (std::size_t depth = 0; depth < options.depths.size(); ++depth) {
        for (Index i = 0; i < options.keys; ++i) {
          prompts_.push_back(prompt(length, depth, std::to_string(10000 + random() % 90000)));
        }
      }
    }
    for (const std::string& name : options.caches) add_panels(name);
    check_writable(options.svg);
    check_writable(options.csv);
  }

  void run() {
    Index total = 0, done = 0;
    for (const Prompt& prompt : prompts_) {
      total += static_cast<Index>(prompt.ids.size() * panels_.size());
    }
    std::ofstream csv;
    if (!options_.csv.empty()) csv.open(options_.csv, std::ios::binary);
    csv << "cache,length,depth,tokens,key,answer,found,kept\n";
    Progress progress("tokens of prompts", total);
    for (Panel& panel : panels_) {
      const Clock clock;
      for (const Prompt& prompt : prompts_) {
        const auto [answer, held] = ask(prompt, panel.choice);
        const bool right = passkey_found(answer, prompt.key);
        Cell& cell = panel.cells[prompt.length][prompt.depth];
        ++cell.asked;
        cell.right += right ? 1 : 0;
        cell.held += held;
        csv << panel.name << ',' << options_.lengths[prompt.length] << ','
            << options_.depths[prompt.depth] << ',' << prompt.ids.size() << ',' << prompt.key
            << ",\"" << in_quotes(answer) << "\"," << (right ? 1 : 0) << ',' << held << std::endl;
        done += static_cast<Index>(prompt.ids.size());
        progress.at(done, panel.name);
      }
      progress.clear();
      print(panel, clock.seconds());
      draw();
    }
    if (!options_.csv.empty() && !csv) throw Error(options_.csv + " cannot be written");
    std::printf("%s: the tables as a picture\n", options_.svg.c_str());
  }

 private:
  void check() const {
    const auto some = [](const char* option, bool empty) {
      if (empty) throw Error(std::string(option) + " is empty; it has at least one");
    };
    some("--lengths", options_.lengths.empty());
    some("--depths", options_.depths.empty());
    some("--cache", options_.caches.empty());
    some("--prefill", options_.prefills.empty());
    for (const Index length : options_.lengths) {
      check_range("--lengths", length, 1, session_.model->config().context - kAnswer);
    }
    for (const double depth : options_.depths) {
      if (!(depth >= 0 && depth <= 1)) {
        throw Error("--depths has " + short_number(depth) + "; it is 0 to 1");
      }
    }
  }

  std::string wrapped(const std::string& text) const {
    const std::string until =
        options_.chat ? chat(session_.chat_template, text, "leave --chat out") : text + "\n\n";
    return until + std::string(kPasskeyAnswer);
  }
  std::vector<int> encode(const std::string& text) const {
    return session_.tokenizer->known(session_.tokenizer->prompt(text, true));
  }
  Index tokens(const std::string& text) const {
    return static_cast<Index>(session_.tokenizer->encode(text, false).size());
  }
  Prompt prompt(std::size_t length, std::size_t depth, const std::string& key) const {
    Prompt result{length, depth, key, {}};
    const Index around = static_cast<Index>(encode(wrapped("")).size());
    const std::string text =
        wrapped(passkey_text(options_.lengths[length], around, options_.depths[depth], key,
                             [&](const std::string& part) { return tokens(part); }));
    const std::size_t at = text.find(key);
    result.ids = encode(text);
    result.key_at = static_cast<Index>(encode(text.substr(0, at)).size());
    result.key_end = static_cast<Index>(encode(text.substr(0, at + key.size())).size());
    return result;
  }

  // A full cache is the same whichever way a prompt is read.
  void add_panels(const std::string& cache) {
    CacheChoice choice = CacheChoice::parse(cache);
    const bool full = choice.policy == CacheChoice::Policy::full;
    for (const heed::Prefill prefill : options_.prefills) {
      choice.prompt = prefill;
      session_.model->new_cache(choice);  // refuses a budget too small
      const char* const way = prefill == heed::Prefill::one_shot ? " one-shot" : " stepwise";
      panels_.push_back({choice, choice.name() + (full ? "" : way),
                         std::vector<std::vector<Cell>>(
                             options_.lengths.size(),
                             std::vector<Cell>(options_.depths.size()))});
      if (full) break;
    }
  }

  struct Answer {
    std::string text;
    double held;
  };
  Answer ask(const Prompt& prompt, const CacheChoice& choice) const {
    const Model& model = *session_.model;
    KvCache cache = model.new_cache(choice);
    Matrix logits = model.next_logits(prompt.ids, cache);
    Answer answer{"", held(prompt, cache)};
    for (Index made = 0; made < kAnswer; ++made) {
      const int id = likeliest(logits, 1).front().id;
      if (session_.tokenizer->is_control(id) || id >= session_.tokenizer->size()) break;
      answer.text += session_.tokenizer->piece(id);
      if (made + 1 < kAnswer) logits = model.next_logits({&id, 1}, cache);
    }
    return answer;
  }
  // The share of the number's tokens that are there, over layers and kv heads.
  double held(const Prompt& prompt, const KvCache& cache) const {
    Index there = 0;
    const Index layers = session_.model->layers(), kv_heads = session_.model->config().kv_heads;
    for (Index layer = 0; layer < layers; ++layer) {
      for (Index g = 0; g < kv_heads; ++g) {
        const heed::List<Index> positions = cache.positions(layer, g);
        for (Index i = 0; i < positions.size; ++i) {
          there += positions[i] >= prompt.key_at && positions[i] < prompt.key_end ? 1 : 0;
        }
      }
    }
    return static_cast<double>(there) /
           static_cast<double>(layers * kv_heads * (prompt.key_end - prompt.key_at));
  }

  static std::string in_quotes(const std::string& answer) {
    std::string text;
    for (const char c : readable(answer)) {
      if (c == '\n') text += "\\n";
      else text += c == '"' ? "\"\"" : std::string(1, c);
    }
    return text;
  }
  static std::string short_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
  }

  void print(const Panel& panel, double seconds) const {
    std::printf("%s: found, of %s, by length and depth; and what share of the number is kept\n\n"
                "| length |", panel.name.c_str(), number(options_.keys).c_str());
    for (const double depth : options_.depths) std::printf(" %s |", short_number(depth).c_str());
    std::printf(" all | kept |\n|---:|");
    for (std::size_t i = 0; i < options_.depths.size() + 2; ++i) std::printf("---:|");
    std::printf("\n");
    for (std::size_t length = 0; length < options_.lengths.size(); ++length) {
      std::printf("| %s |", number(options_.lengths[length]).c_str());
      Cell all;
      for (const Cell& cell : panel.cells[length]) {
        std::printf(" %td |", cell.right);
        all.right += cell.right;
        all.asked += cell.asked;
        all.held += cell.held;
      }
      const double asked = static_cast<double>(all.asked);
      std::printf(" %.0f %% | %.0f %% |\n", 100 * static_cast<double>(all.right) / asked,
                  100 * all.held / asked);
    }
    std::printf("\n");
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %.0f s\n", panel.name.c_str(), seconds);
  }

  void draw() const {
    HeatAxes axes{"Is the hidden number found?",
                  "of " + number(options_.keys) + " numbers each, by the prompt's length in tokens "
                  "and the number's depth in it", "length", "depth", {}, {}};
    for (const Index length : options_.lengths) axes.rows.push_back(number(length));
    for (const double depth : options_.depths) axes.columns.push_back(short_number(depth));
    std::vector<HeatMap> maps;
    for (const Panel& panel : panels_) {
      HeatMap map{panel.name, {}, {}};
      for (const std::vector<Cell>& row : panel.cells) {
        map.share.emplace_back();
        map.words.emplace_back();
        for (const Cell& cell : row) {
          map.share.back().push_back(cell.asked == 0 ? -1 : static_cast<double>(cell.right) /
                                                                static_cast<double>(cell.asked));
          map.words.back().push_back(cell.asked == 0 ? "" : number(cell.right));
        }
      }
      maps.push_back(std::move(map));
    }
    save(options_.svg, draw_heat_maps(axes, maps));
  }

  const Session& session_;
  const Passkey& options_;
  std::vector<Prompt> prompts_;
  std::vector<Panel> panels_;
};

}  // namespace

void passkey(Session& session, const Passkey& options) { Experiment(session, options).run(); }

}  // namespace lm

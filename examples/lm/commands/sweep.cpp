// SPDX-License-Identifier: Apache-2.0
//
// Perplexity by policy and budget, as table 3 of the TOVA paper (arXiv 2401.06104) has it. A text
// is cut into chunks, and each is read from an empty cache as if it were being written: every token
// attends to what is kept of those before it, and one goes once the budget is reached. What has
// been measured is printed, and drawn, at once, so that nothing is lost when it is stopped.

#include "../sweep.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include "../clock.hpp"
#include "../curves.hpp"
#include "../score.hpp"
#include "commands.hpp"

namespace lm {
namespace {

struct Measured {
  Score score;
  double recent_share = 0, first_held = 0;  // at the end of the last chunk
  double seconds = 0, attention_seconds = 0;
};

// 18.25, or 1,234 where nobody asks for more.
std::string perplexity_text(double value) {
  if (std::isfinite(value) && value >= 1000 && value < 1e15) return number(std::lround(value));
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}
std::string percent(double share) { return number(std::lround(100 * share)) + " %"; }

class Sweeper {
 public:
  Sweeper(Session& session, const Sweep& options)
      : model_(*session.model), options_(options), ids_(read(session)) {
    for (const std::string& policy : options.policies) {
      rows_.push_back(sweep_row(policy, options.budgets));
      for (const CacheChoice& choice : rows_.back().choices) {
        model_.new_cache(choice);  // refuses a budget too small
        total_ += static_cast<Index>(ids_.size());
      }
    }
    check_writable(options.svg);
    check_writable(options.csv);
  }

  void run() {
    std::ofstream csv;
    if (!options_.csv.empty()) csv.open(options_.csv, std::ios::binary);
    csv << "policy,budget,chunk,tokens,predicted,perplexity,recent_share,first_held,seconds\n";
    std::printf("%s\n\n", what().c_str());
    Progress progress("tokens of all configurations", total_);
    for (const SweepRow& row : rows_) {
      for (const CacheChoice& choice : row.choices) {
        const Measured m = measure(choice, progress);
        results_[choice.name()] = m;
        progress.clear();
        std::printf("%-16s perplexity %10s, recent %5s, %.0f s, %.0f %% of them in attention\n",
                    choice.name().c_str(), perplexity_text(m.score.perplexity()).c_str(),
                    recent(choice, m).c_str(), m.seconds, 100 * m.attention_seconds / m.seconds);
        std::fflush(stdout);
        csv << choice.policy_name() << ',' << choice.budget << ',' << options_.chunk << ','
            << ids_.size() << ',' << m.score.predicted << ',' << m.score.perplexity() << ','
            << m.recent_share << ',' << m.first_held << ',' << m.seconds << std::endl;
        draw();
      }
    }
    if (!options_.csv.empty() && !csv) throw Error(options_.csv + " cannot be written");
    std::printf("\nPerplexity:\n\n");
    table([](const CacheChoice&, const Measured& m) {
      return perplexity_text(m.score.perplexity());
    });
    std::printf("\nOf the tokens that are kept at the end of a chunk, those among the last "
                "`budget`:\n\n");
    table([](const CacheChoice& choice, const Measured& m) { return recent(choice, m); });
    std::printf("\n%s: the curves\n", options_.svg.c_str());
  }

 private:
  // Whole chunks only, so that all of them give their tokens the same context.
  std::vector<int> read(const Session& session) const {
    check_range("--chunk", options_.chunk, 2, model_.config().context);
    if (options_.policies.empty()) throw Error("--policies is empty; it names at least one");
    if (options_.budgets.empty()) throw Error("--budgets is empty; it has at least one number");
    for (const Index budget : options_.budgets) {
      check_range("--budgets", budget, 1, options_.chunk - 1);
    }
    if (options_.tokens != 0) {
      check_range("--tokens, in whole chunks,", options_.tokens, options_.chunk, Index{1} << 40);
    }
    std::vector<int> ids = read_text(session, options_.text, options_.tokens, options_.chunk);
    ids.resize(ids.size() - ids.size() % static_cast<std::size_t>(options_.chunk));
    return ids;
  }
  std::string what() const {
    const Index n = static_cast<Index>(ids_.size());
    return number(n) + " tokens, in chunks of " + number(options_.chunk);
  }

  Measured measure(const CacheChoice& choice, Progress& progress) {
    Measured m;
    Observer observer;
    const Clock clock;
    const Index n = static_cast<Index>(ids_.size());
    for (Index first = 0; first < n; first += options_.chunk) {
      KvCache cache = model_.new_cache(choice);
      score_text(model_, std::span(ids_).subspan(static_cast<std::size_t>(first),
                                                 static_cast<std::size_t>(options_.chunk)),
                 cache, m.score, &observer, [&](Index tokens) {
                   progress.at(done_ + first + tokens, choice.name() + " so far " +
                               perplexity_text(m.score.perplexity()));
                 });
      m.recent_share = cache.recent_share();
      m.first_held = cache.first_held();
    }
    done_ += n;
    m.seconds = clock.seconds();
    m.attention_seconds = observer.attention_seconds;
    return m;
  }

  static std::string recent(const CacheChoice& choice, const Measured& m) {
    return choice.policy == CacheChoice::Policy::full ? "all" : percent(m.recent_share);
  }

  // cell(choice, measured): what a cell says. A full cache says the same for every budget.
  template <class Cell>
  void table(Cell&& cell) const {
    std::printf("| policy |");
    for (const Index budget : options_.budgets) std::printf(" %s |", number(budget).c_str());
    std::printf("\n|---|");
    for (std::size_t i = 0; i < options_.budgets.size(); ++i) std::printf("---:|");
    std::printf("\n");
    for (const SweepRow& row : rows_) {
      std::printf("| %s |", row.policy.c_str());
      for (std::size_t i = 0; i < options_.budgets.size(); ++i) {
        const CacheChoice& choice = row.choices[std::min(i, row.choices.size() - 1)];
        std::printf(" %s |", cell(choice, results_.at(choice.name())).c_str());
      }
      std::printf("\n");
    }
  }

  void draw() const {
    Axes axes{"Perplexity by budget", what() + ", each read token by token from an empty cache",
              "tokens kept per layer", "perplexity", {}};
    for (const Index budget : options_.budgets) axes.ticks.push_back(static_cast<double>(budget));
    std::vector<Curve> curves;
    for (const SweepRow& row : rows_) {
      Curve curve{row.policy, {}, {}};
      for (const CacheChoice& choice : row.choices) {
        const auto found = results_.find(choice.name());
        if (found == results_.end()) continue;
        if (choice.budget > 0) curve.x.push_back(static_cast<double>(choice.budget));
        curve.y.push_back(found->second.score.perplexity());
      }
      if (!curve.y.empty()) curves.push_back(curve);
    }
    save(options_.svg, draw_curves(axes, curves));
  }

  const Model& model_;
  const Sweep& options_;
  std::vector<int> ids_;
  std::vector<SweepRow> rows_;
  std::map<std::string, Measured> results_;  // by the choice's name
  Index total_ = 0, done_ = 0;               // tokens, of all configurations
};

}  // namespace

void sweep(Session& session, const Sweep& options) { Sweeper(session, options).run(); }

}  // namespace lm

// SPDX-License-Identifier: Apache-2.0
//
// CoPE counts sentences in a real text. One attention head, built by hand (head.hpp), is asked at
// every character for the end of the k-th sentence back. With CoPE it finds it wherever it is; with
// a relative encoding it cannot, not even with a vector for every distance. Prints what was found
// and draws both as attention maps.

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "head.hpp"
#include "svg.hpp"
#include "text.hpp"

namespace {

using count::Complaint;
using count::number;
using heed::Index;

struct Options {
  std::string text = "/usr/share/common-licenses/GPL-3";
  std::string svg = "count.svg";
  std::string unit = "sentence";
  Index back = 3;
  Index limit = 40'000;
};

constexpr Index kLongest = 1'000'000;  // the work grows with the square

const std::map<std::string, count::Unit> kUnits{{"sentence", count::Unit::sentence},
                                                {"word", count::Unit::word},
                                                {"paragraph", count::Unit::paragraph}};

std::string many(Index n, const std::string& what) {
  return number(n) + " " + what + (n == 1 ? "" : "s");
}

// An encoding, its table's size, and how it did.
struct Contest {
  std::string name;
  Index vectors;
  count::Panel panel;
  count::Score score;
};

class Count {
 public:
  explicit Count(const Options& options) : o_(options), text_(count::read(options.text)) {
    std::error_code error;
    if (std::filesystem::equivalent(o_.text, o_.svg, error)) {
      throw Complaint("--svg would overwrite the text " + o_.text);
    }
    whole_ = Index(text_.size());
    if (whole_ > o_.limit) text_.erase(0, text_.size() - std::size_t(o_.limit));
    n_ = Index(text_.size());
    const auto found = count::unit_ends(text_, kUnits.at(o_.unit));
    ends_.assign(found.begin(), found.end());
    if (ends_.empty()) throw Complaint("no " + o_.unit + " ends in " + where());
    if (Index(ends_.size()) < o_.back) {
      throw Complaint("only " + many(Index(ends_.size()), o_.unit + " end") + " in " + where() +
                      ", and --back asks for " + number(o_.back));
    }
    places_ = count::right_places(n_, ends_, o_.back);
    asked_ = ends_[std::size_t(o_.back - 1)];
    choose_window();
  }

  void run() {
    const count::Head head(n_, ends_);
    const count::Matrix table = count::cope_table(o_.back);
    const heed::Cope cope{table};
    introduce();
    show_places(head, cope);

    const count::Matrix few = count::relative_table(o_.back + 2, ends_, places_);
    const count::Matrix all = count::relative_table(n_, ends_, places_);
    compete(head, "CoPE", table, cope);
    compete(head, "Relative, as many vectors", few, heed::Relative{.table = few, .capped = true});
    compete(head, "Relative, one per distance", all, heed::Relative{.table = all, .capped = true});
    summarise();
    draw();
  }

 private:
  std::string where() const {
    return n_ == whole_ ? o_.text
                        : "the last " + many(n_, "character") + " of " + o_.text + " (see --limit)";
  }
  // "the end of the 3rd sentence back"
  std::string question() const {
    const Index last = o_.back % 10, teens = o_.back / 10 % 10;
    constexpr const char* kEndings[] = {"th", "st", "nd", "rd"};
    const char* const ending = kEndings[teens != 1 && last < 4 ? last : 0];
    return "the end of the " + number(o_.back) + ending + " " + o_.unit + " back";
  }
  std::string quote(Index begin, Index end, std::size_t width) const {
    const std::u32string_view all = text_;
    return count::quote(all.substr(std::size_t(begin), std::size_t(end - begin)), width);
  }
  // Where the unit begins that ends at ends_[i].
  Index begin_of(std::size_t i) const {
    Index begin = i == 0 ? 0 : ends_[i - 1] + 1;
    while (o_.unit == "word" && !count::is_letter(text_[std::size_t(begin)])) ++begin;
    return begin;
  }

  // Its last few words.
  std::string tail(std::size_t i) const {
    constexpr Index kWidth = 18;
    const Index start = begin_of(i), end = ends_[i] + 1;
    const Index begin = std::max(start, end - kWidth);
    if (begin == start) return quote(begin, end, 2 * kWidth);
    for (Index j = begin; j < end; ++j) {
      if (count::is_blank(text_[std::size_t(j)])) return "…" + quote(j, end, 2 * kWidth);
    }
    return "…" + quote(begin, end, 2 * kWidth);
  }

  // Some five units of queries, and the keys that they ask for.
  void choose_window() {
    const Index mean = std::max<Index>(1, n_ / Index(ends_.size()));
    const Index rows = std::clamp<Index>(5 * mean, 120, 800);
    view_.end = n_;
    view_.first_query = std::max(asked_, n_ - rows);
    view_.first_key = std::max<Index>(0, places_[std::size_t(view_.first_query)] - mean / 2 - 4);
    view_.pool = (n_ - view_.first_key + 159) / 160;
  }

  void introduce() const {
    std::printf("%s: %s", o_.text.c_str(), many(whole_, "character").c_str());
    if (n_ < whole_) std::printf(", of which the last %s", number(n_).c_str());
    std::printf(", %s\n", many(Index(ends_.size()), o_.unit).c_str());
    std::printf(
        "One attention head of width 2 looks at every character for %s.\n"
        "Its gates open at %s ends only, so that CoPE's positions count %ss.\n\n",
        question().c_str(), o_.unit.c_str(), o_.unit.c_str());
  }

  void show_places(const count::Head& head, const heed::Cope& cope) const {
    std::printf("%12s  %10s  %6s  %5s  %s\n", "at character", "looks back", "counts", "right",
                "what ends there");
    const Index places = std::min<Index>(10, n_ - asked_);
    for (Index i = 0; i < places; ++i) {
      const Index query = asked_ + (n_ - 1 - asked_) * i / std::max<Index>(1, places - 1);
      Index found = 0;
      count::look(head, query, query + 1, cope,
                  [&](Index, const auto&, float place) { found = Index(std::lround(place)); });
      found = std::clamp<Index>(found, 0, query);
      const auto end = std::lower_bound(ends_.begin(), ends_.end(), found);
      const bool is_end = end != ends_.end() && *end == found;
      const auto which = std::size_t(end - ends_.begin());
      const std::string unit = is_end ? quote(begin_of(which), found + 1, 52) : "(not an end)";
      std::printf("%12s  %10s  %6.3f  %5s  %s\n", number(query).c_str(),
                  number(query - found).c_str(), double(count::counted(head, query, found, cope)),
                  found == places_[std::size_t(query)] ? "yes" : "NO", unit.c_str());
    }
  }

  template <class Encoding>
  void compete(const count::Head& head, const char* name, const count::Matrix& table,
               const Encoding& encoding) {
    Contest contest{name, table.rows(), count::Panel(view_), {}};
    const bool talk = n_ > 10'000 && isatty(STDERR_FILENO) != 0;
    count::look(head, asked_, n_, encoding, [&](Index query, const auto& weights, float) {
      contest.score.add(weights, places_[std::size_t(query)]);
      contest.panel.add(view_, query, weights);
      if (talk && (query % 1000 == 0 || query + 1 == n_)) {
        std::fprintf(stderr, "\r%-28s %7s of %s characters%s", name, number(query + 1).c_str(),
                     number(n_).c_str(), query + 1 == n_ ? "\r\033[K" : "");
      }
    });
    contests_.push_back(std::move(contest));
  }

  void summarise() const {
    std::printf("\n%s with %s behind them:\n\n", many(n_ - asked_, "character").c_str(),
                many(o_.back, o_.unit + " end").c_str());
    std::printf("  %-28s %8s  %16s  %15s\n", "encoding", "vectors", "looks most at it",
                "mean weight there");
    for (const Contest& c : contests_) {
      const double asked = double(c.score.asked);
      std::printf("  %-28s %8s  %14.1f %%  %17.3f\n", c.name.c_str(), number(c.vectors).c_str(),
                  100 * c.score.right / asked, c.score.weight / asked);
    }
    Index nearest = n_, farthest = 0;
    for (Index i = asked_; i < n_; ++i) {
      nearest = std::min(nearest, i - places_[std::size_t(i)]);
      farthest = std::max(farthest, i - places_[std::size_t(i)]);
    }
    std::printf("\nThe right one is %s to %s characters back, ", number(nearest).c_str(),
                number(farthest).c_str());
    if (contests_.back().score.right < 0.999 * double(n_ - asked_)) {
      std::printf(
          "and other ends stand at the\n"
          "same distances, so a table of distances cannot tell which is which. ");
    } else {
      std::printf(
          "and no other end disturbs it there,\n"
          "so in this text a table of distances does as well. ");
    }
    std::printf(
        "Both relative tables\n"
        "are fitted to this very text: a distance gets the logarithm of the share of\n"
        "%s ends at that distance that were the right one.\n",
        o_.unit.c_str());
  }

  void draw() {
    std::vector<Index> shown;
    std::vector<std::string> labels;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (ends_[i] < view_.first_key) continue;
      shown.push_back(ends_[i]);
      labels.push_back(tail(i));
    }
    std::vector<count::Panel> panels;
    for (Contest& c : contests_) {
      char line[160];
      std::snprintf(line, sizeof line, "%s vectors, right for %.1f %% of the characters",
                    number(c.vectors).c_str(), 100 * c.score.right / double(c.score.asked));
      c.panel.title = c.name;
      c.panel.subtitle = line;
      panels.push_back(c.panel);
    }
    const std::string file = std::filesystem::path(o_.text).filename().string();
    count::Picture picture("One attention head looks for " + question(),
                           "the last " + number(n_ - view_.first_query) + " of " + number(n_) +
                               " characters of " + count::quote(count::decode(file), 60) + ", " +
                               many(Index(ends_.size()), o_.unit) +
                               "; weights by heed::attend, no training",
                           question(), view_);
    std::ofstream out(o_.svg, std::ios::binary);
    out << picture.draw(panels, places_, shown, labels);
    out.close();
    if (!out) throw Complaint("the picture " + o_.svg + " cannot be written");
    std::printf("\nAttention maps: %s\n", o_.svg.c_str());
  }

  Options o_;
  std::u32string text_;
  Index whole_ = 0, n_ = 0, asked_ = 0;  // asked_: the first query with enough ends behind it
  std::vector<Index> ends_, places_;
  count::Window view_{};
  std::vector<Contest> contests_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "CoPE counts in a real text: one attention head finds the end of the k-th unit back.");
  app.add_option("--text", options.text, "text file, UTF-8")->capture_default_str();
  app.add_option("--back", options.back, "k, the end of which unit back")->capture_default_str();
  app.add_option("--unit", options.unit, "what is counted: sentence, word or paragraph")
      ->capture_default_str();
  app.add_option("--svg", options.svg, "where the picture goes")->capture_default_str();
  app.add_option("--limit", options.limit, "read the last so many characters only")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    if (options.back < 1) {
      throw Complaint("--back is " + number(options.back) + "; it counts from 1");
    }
    if (options.limit < 1 || options.limit > kLongest) {
      throw Complaint("--limit is " + number(options.limit) + "; it is between 1 and " +
                      number(kLongest));
    }
    if (!kUnits.contains(options.unit)) {
      throw Complaint("--unit is " + options.unit + "; it is sentence, word or paragraph");
    }
    Count(options).run();
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    std::fprintf(stderr, "count: %s\n", e.what());
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "count: %s\n", e.what());
    return 1;
  }
}

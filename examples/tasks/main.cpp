// SPDX-License-Identifier: Apache-2.0
//
// heed-tasks: the papers' experiments, trained on heed. `heed-tasks --help` lists them.

#include <CLI/CLI.hpp>

#include <cstdio>
#include <thread>

#include "length.hpp"
#include "map.hpp"
#include "report.hpp"

namespace {

using namespace tasks;

struct Options {
  std::vector<std::string> encodings{"cope", "rope", "absolute"};
  std::vector<std::uint64_t> seeds{1, 2, 3};
  std::string size = "small";
  std::vector<int> variables{1, 3, 5};
  std::string csv, svg, keep, text = "/usr/share/common-licenses", task = "flipflop";
  std::string form;
  Index threads = 2, steps = 0, vectors = 0, batch = 0, fit_length = 0;
  double rate = 0;
  bool check = false, quiet = false;
};

Size size_of(const std::string& name) {
  return name == "tiny" ? Size::tiny : name == "small" ? Size::small : Size::paper;
}

// What the command line changes in a plan.
Plan adjusted(Plan plan, const Options& o) {
  if (o.steps > 0) plan.schedule.steps = o.steps;
  if (o.vectors > 0) plan.shape.vectors = o.vectors;
  if (o.batch > 0) plan.batch = o.batch;
  if (o.rate > 0) plan.schedule.peak = o.rate;
  if (!o.form.empty()) plan.shape.form = o.form == "b" ? heed::CopeForm::b : heed::CopeForm::a;
  return plan;
}

RunOptions run_options(const Options& o) {
  RunOptions options;
  options.keep = !o.keep.empty() ? o.keep : o.size == "paper" ? "heed-tasks-state" : "";
  options.quiet = o.quiet;
  return options;
}

Run test_all(Trainer& trainer) {
  const Plan& plan = trainer.plan();
  Run run{.problem = plan.problem,
          .pe = trainer.model().shape().pe,
          .seed = trainer.seed(),
          .steps = plan.schedule.steps,
          .parameters = trainer.model().parameters(),
          .seconds = trainer.seconds(),
          .first_loss = trainer.mean_loss(false),
          .last_loss = trainer.mean_loss(true),
          .sets = {},
          .scores = {},
          .by_sequence = plan.by_sequence};
  for (const Set& set : plan.tests) {
    run.sets.push_back(set.name);
    run.scores.push_back(trainer.test(set));
  }
  return run;
}

// What a working gradient must achieve; says what is missing.
bool fulfilled(const std::vector<Run>& runs) {
  bool good = true;
  for (const Run& run : runs) {
    const auto complain = [&](const char* what) {
      std::printf("CHECK FAILED: %s, %s, seed %lu: %s\n", run.problem.c_str(),
                  name_of(run.pe).c_str(), static_cast<unsigned long>(run.seed), what);
      good = false;
    };
    if (!(run.last_loss < run.first_loss)) complain("the loss did not fall");
    if (run.problem == "flip-flop" && run.pe == Pe::cope && !(run.error(0) <= 1)) {
      complain("more than 1 % of the reads in distribution are wrong");
    }
  }
  return good;
}

int compare(const std::vector<Plan>& plans, const Options& o) {
  Eigen::ThreadPool pool(int(o.threads));
  const Device device(&pool, int(o.threads));
  RunOptions options = run_options(o);
  options.runs = Index(plans.size() * o.encodings.size() * o.seeds.size());
  std::vector<Run> runs;
  for (const Plan& plan : plans) {
    const ModelShape& s = plan.shape;
    std::printf("%s (%s): %s\n%ld layers, width %ld, %ld heads, %ld vectors; %ld steps of %ld "
                "sequences, rate %g, decay %g\n\n",
                plan.problem.c_str(), o.size.c_str(), plan.summary.c_str(), long(s.layers),
                long(s.width), long(s.heads), long(s.vectors), long(plan.schedule.steps),
                long(plan.batch), plan.schedule.peak, plan.schedule.decay);
    for (const std::string& name : o.encodings) {
      for (const std::uint64_t seed : o.seeds) {
        Trainer trainer(plan, encoding_of(name), seed, device, options);
        trainer.train();
        runs.push_back(test_all(trainer));
        ++options.run;
        const Run& run = runs.back();
        std::printf("%-15s seed %lu: ", name.c_str(), static_cast<unsigned long>(seed));
        for (std::size_t i = 0; i < run.sets.size(); ++i) {
          std::printf(" %s %.2f %%", run.sets[i].c_str(), run.error(i));
        }
        std::printf("  (loss %.3f > %.5f, %.0f CPU s)\n", run.first_loss, run.last_loss,
                    run.seconds);
        std::fflush(stdout);
      }
    }
  }
  std::printf("%s", as_text(runs).c_str());
  if (!o.csv.empty()) write_file(o.csv, as_csv(runs));
  if (!o.svg.empty()) {
    write_file(o.svg, as_svg(runs, plans[0].problem.substr(0, plans[0].problem.find("-1")),
                             o.size + ": " + plans[0].summary));
  }
  return o.check && !fulfilled(runs) ? 1 : 0;
}

int evaluate_lengths(const Options& o) {
  Eigen::ThreadPool pool(int(o.threads));
  const Device device(&pool, int(o.threads));
  LengthOptions options{.text = o.text,
                        .encodings = {},
                        .seed = o.seeds.at(0),
                        .size = size_of(o.size),
                        .steps = o.steps,
                        .fit_length = o.fit_length,
                        .csv = o.csv,
                        .svg = o.svg,
                        .run = run_options(o)};
  for (const std::string& name : o.encodings) options.encodings.push_back(encoding_of(name));
  return length(options, device);
}

Plan plan_of(const std::string& task, Size size) {
  return task == "flipflop" ? flip_flop(size)
         : task == "selective-copy" ? selective_copy(size) : counting(size, 1);
}

// Trains a CoPE model (or takes up a kept one) and draws what it does with the first test sequence.
int draw_maps(const Options& o) {
  Eigen::ThreadPool pool(int(o.threads));
  const Device device(&pool, int(o.threads));
  const Plan plan = adjusted(plan_of(o.task, size_of(o.size)), o);
  Trainer trainer(plan, Pe::cope, o.seeds.at(0), device, run_options(o));
  trainer.train();
  Random random(0, Stream::test, 0);
  const Sample sample = plan.tests[0].draw(random);
  const auto names = token_names(plan.problem);
  std::printf("%s, seed %lu, error %.2f %%\n%s", plan.problem.c_str(),
              static_cast<unsigned long>(trainer.seed()), test_all(trainer).error(0),
              map_as_text(trainer, sample, names).c_str());
  const std::string path = o.svg.empty() ? "map.svg" : o.svg;
  write_file(path, map_as_svg(trainer, sample, names, "CoPE on " + plan.problem));
  std::printf("\nwritten: %s\n", path.c_str());
  return 0;
}

void add_options(CLI::App& command, Options& o) {
  std::vector<std::string> names;
  for (const auto& [name, pe] : kEncodings) names.emplace_back(name);
  command.add_option("--pe", o.encodings, "encodings, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command.add_option("--seeds", o.seeds, "seeds, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--size", o.size, "tiny, small or paper")
      ->check(CLI::IsMember({"tiny", "small", "paper"}))
      ->capture_default_str();
  command.add_option("--threads", o.threads)->check(CLI::Range(1, 64))->capture_default_str();
  command.add_option("--csv", o.csv, "write the results, a line per encoding, seed and set");
  command.add_option("--svg", o.svg, "draw them");
  command.add_option("--keep", o.keep,
                     "folder for states to resume from (paper: heed-tasks-state by default)");
  command.add_option("--steps", o.steps, "instead of the size's own")->check(CLI::PositiveNumber);
  command.add_option("--rate", o.rate, "peak learning rate")->check(CLI::PositiveNumber);
  command.add_option("--batch", o.batch, "sequences per step")->check(CLI::PositiveNumber);
  command.add_option("--vectors", o.vectors, "rows of CoPE's and relative's tables")
      ->check(CLI::PositiveNumber);
  command.add_option("--form", o.form, "CoPE's: a (the paper's listing) or b (its released code)")
      ->check(CLI::IsMember({"a", "b"}));
  command.add_flag("--check", o.check, "fail unless the loss fell and CoPE solved the flip-flop");
  command.add_flag("--quiet", o.quiet, "no progress");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The experiments of the CoPE and NoPE papers, trained with heed's gradients"};
  app.require_subcommand(1);
  Options o;
  auto* const flip = app.add_subcommand("flipflop", "remember the last written bit");
  auto* const copy = app.add_subcommand("selective-copy", "copy what is not blank");
  auto* const count = app.add_subcommand("counting", "count increments since the last reset");
  auto* const longer = app.add_subcommand("length", "train on a text, read longer windows of it");
  auto* const map = app.add_subcommand("map", "attention maps and positions of a CoPE model");
  for (CLI::App* command : {flip, copy, count, longer, map}) add_options(*command, o);
  longer->add_option("--text", o.text, "a file or a folder")->capture_default_str();
  longer->add_option("--fit-length", o.fit_length, "of the sequences for NoPE's scales")
      ->check(CLI::PositiveNumber);
  map->add_option("--task", o.task)
      ->check(CLI::IsMember({"flipflop", "selective-copy", "counting"}))
      ->capture_default_str();
  count->add_option("--variables", o.variables, "one problem for each number of variables")
      ->delimiter(',')
      ->check(CLI::Range(1, 5))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    if (longer->parsed()) return evaluate_lengths(o);
    if (map->parsed()) return draw_maps(o);
    const Size size = size_of(o.size);
    std::vector<Plan> plans;
    if (flip->parsed()) plans.push_back(adjusted(flip_flop(size), o));
    if (copy->parsed()) plans.push_back(adjusted(selective_copy(size), o));
    if (count->parsed()) {
      for (const int n : o.variables) plans.push_back(adjusted(counting(size, n), o));
    }
    return compare(plans, o);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heed-tasks: %s\n", error.what());
    return 2;
  }
}

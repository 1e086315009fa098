// SPDX-License-Identifier: Apache-2.0
//
// Tokens per second and the share of attention, by length, as the table of README.md: a prompt of
// `length - steps` tokens is read, then `steps` tokens are generated behind it. Speed does not
// depend on which tokens they are, so they are drawn and no text is needed.

#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include "../clock.hpp"
#include "commands.hpp"

namespace lm {
namespace {

struct Row {
  double prompt_rate = 0, prompt_share = 0, step_rate = 0, step_share = 0;  // per second, 0 .. 1
};

Row measure(const Model& model, Index length, Index steps, Progress& progress, Index done) {
  std::mt19937 random(1);
  std::vector<int> ids;
  for (Index i = 0; i < length; ++i) {
    ids.push_back(static_cast<int>(random() % static_cast<unsigned>(model.config().vocabulary)));
  }
  const auto prompt = std::span<const int>(ids).first(static_cast<std::size_t>(length - steps));
  KvCache cache = model.new_cache();
  Row row;
  Observer reading, writing;
  Clock clock;
  model.read(prompt, cache, [&](Index first, const Matrix& vectors) {
    progress.at(done + first + vectors.rows());
  }, &reading);
  double seconds = clock.seconds();
  row.prompt_rate = static_cast<double>(length - steps) / seconds;
  row.prompt_share = reading.attention_seconds / seconds;

  clock = Clock();
  for (std::size_t i = prompt.size(); i < ids.size(); ++i) {
    // The drawn token follows, whatever the model says.
    Sampler({})(model.next_logits({&ids[i], 1}, cache, &writing));
  }
  seconds = clock.seconds();
  row.step_rate = static_cast<double>(steps) / seconds;
  row.step_share = writing.attention_seconds / seconds;
  return row;
}

}  // namespace

void bench(Session& session, const Bench& options) {
  Index total = 0;
  for (const Index length : options.lengths) {
    if (length <= options.steps || length > session.model->config().context) {
      throw Error("a length is " + number(length) + "; it is above " + number(options.steps) +
                  ", the number of steps, and at most " +
                  number(session.model->config().context) + ", the model's context");
    }
    total += length;
  }
  std::printf("| threads | tokens | prompt, tokens/s | attention | generation, tokens/s | "
              "attention |\n"
              "|---:|---:|---:|---:|---:|---:|\n");
  for (int count = 1; count <= session.threads.count(); ++count) {
    const Threads threads(count);
    session.model->run_on(threads);
    Progress progress("tokens", total);
    Index done = 0;
    for (const Index length : options.lengths) {
      const Row row = measure(*session.model, length, options.steps, progress, done);
      done += length;
      std::printf("| %d | %s | %.0f | %.0f %% | %.1f | %.0f %% |\n", count, number(length).c_str(),
                  row.prompt_rate, 100 * row.prompt_share, row.step_rate, 100 * row.step_share);
      std::fflush(stdout);
    }
    session.model->run_on(session.threads);  // before these threads end
  }
}

}  // namespace lm

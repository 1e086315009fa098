// SPDX-License-Identifier: Apache-2.0
//
// How well the model foresees a text: exp of the mean of -ln p(token | the tokens before it in its
// chunk), over all tokens but the first of each chunk. Lower is better. Also the speed of reading.

#include <cmath>
#include <cstdio>

#include "../clock.hpp"
#include "../score.hpp"
#include "commands.hpp"

namespace lm {

void perplexity(Session& session, const Perplexity& options) {
  const Model& model = *session.model;
  if (options.chunk < 2 || options.chunk > model.config().context) {
    throw Error("--chunk is " + number(options.chunk) + "; it is 2 to " +
                number(model.config().context) + ", the model's context");
  }
  const std::vector<int> ids = read_text(session, options.text, options.tokens, 2);
  const Index n = static_cast<Index>(ids.size());
  Score score;
  Observer observer;
  Index done = 0;
  const Clock clock;
  {
    Progress progress("tokens", n);
    for (Index first = 0; first < n; first += options.chunk) {
      const Index count = std::min(options.chunk, n - first);
      KvCache cache = model.new_cache();
      score_text(model, std::span(ids).subspan(static_cast<std::size_t>(first),
                                               static_cast<std::size_t>(count)),
                 cache, score, &observer, [&](Index tokens) {
                   char note[64];
                   std::snprintf(note, sizeof note, "perplexity so far %.2f", score.perplexity());
                   progress.at(first + tokens, score.predicted == 0 ? "" : note);
                 });
      done += count;
    }
  }
  const double seconds = clock.seconds();
  std::printf("tokens      %s in %s chunk%s of %s, %s of them predicted\n", number(n).c_str(),
              number((n + options.chunk - 1) / options.chunk).c_str(),
              n > options.chunk ? "s" : "", number(std::min(n, options.chunk)).c_str(),
              number(score.predicted).c_str());
  std::printf("tokens/s    %.1f on %d thread%s\n", static_cast<double>(done) / seconds,
              session.threads.count(), session.threads.count() == 1 ? "" : "s");
  if (options.profile) {
    std::printf("attention   %.1f %% of the time\n", 100 * observer.attention_seconds / seconds);
  }
  std::printf("perplexity  %.4f\n", score.perplexity());
}

}  // namespace lm

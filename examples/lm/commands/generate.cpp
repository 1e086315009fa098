// SPDX-License-Identifier: Apache-2.0
//
// What comes next: the likeliest tokens after a prompt, or a text, token by token. A step costs one
// pass over the weights and one over the keys and values that are kept: of all tokens, or, with
// --cache, of a fixed number.

#include <cstdio>
#include <utility>

#include "../chat.hpp"
#include "../clock.hpp"
#include "commands.hpp"

namespace lm {
namespace {

std::vector<int> encode(const Session& session, const std::string& prompt) {
  std::vector<int> ids = session.tokenizer->known(session.tokenizer->prompt(prompt, true));
  if (ids.empty()) throw Error("the prompt is empty");
  return ids;
}

double per_second(Index tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

}  // namespace

void next(Session& session, const Next& options) {
  const std::vector<int> ids = encode(session, options.prompt);
  KvCache cache = session.model->new_cache();
  const Clock clock;
  const Matrix logits = session.model->next_logits(ids, cache);
  const double seconds = clock.seconds();
  for (const Likely& token : likeliest(logits, options.count)) {
    std::printf("%6.2f %%  %6d  %s\n", 100 * token.probability, token.id,
                label(session, token.id).c_str());
  }
  std::fprintf(stderr, "prompt: %td tokens, %.1f tokens/s\n", cache.tokens(),
               per_second(cache.tokens(), seconds));
}

void generate(Session& session, const Generate& options) {
  const Model& model = *session.model;
  const std::vector<int> ids = encode(
      session, options.chat ? chat(session.chat_template, options.prompt, "leave --chat out")
                            : options.prompt);
  KvCache cache = model.new_cache(options.remembering.choice());
  if (!options.chat) std::fputs(options.prompt.c_str(), stdout);
  std::fflush(stdout);

  Sampler sample(options.sampling);
  Clock clock;
  Matrix logits = model.next_logits(ids, cache);
  const double prompt_seconds = clock.seconds();

  Observer observer;
  clock = Clock();
  Index made = 0;
  const char* why = "--max-tokens";
  for (; made < options.max_tokens; ++made) {
    const int id = sample(logits);
    if (session.tokenizer->is_control(id)) {
      why = "the model ended the text";
      break;
    }
    const std::string piece = id < session.tokenizer->size() ? session.tokenizer->piece(id) : "";
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
    if (cache.tokens() == model.config().context) {
      why = "the model's context is full";
      break;
    }
    if (made + 1 < options.max_tokens) logits = model.next_logits({&id, 1}, cache, &observer);
  }
  const double seconds = clock.seconds();
  std::fputs("\n", stdout);
  std::fflush(stdout);
  std::fprintf(stderr, "prompt: %zu tokens, %.1f tokens/s; generated: %td tokens, %.1f tokens/s, "
               "%.0f %% of the time in attention; stopped by: %s\n",
               ids.size(), per_second(static_cast<Index>(ids.size()), prompt_seconds), made,
               per_second(made, seconds),
               seconds > 0 ? 100 * observer.attention_seconds / seconds : 0.0, why);
  std::fprintf(stderr, "cache %s: %s tokens read, %.1f MB of keys and values",
               cache.choice().name().c_str(), number(cache.tokens()).c_str(),
               static_cast<double>(cache.bytes()) * 1e-6);
  if (cache.choice().policy != CacheChoice::Policy::full) {
    std::fprintf(stderr, "; of what is held, %.0f %% is among the last %s tokens, and the first "
                 "token in %.0f %% of the layers and heads",
                 100 * cache.recent_share(), number(cache.choice().budget).c_str(),
                 100 * cache.first_held());
  }
  std::fputs("\n", stderr);
}

}  // namespace lm

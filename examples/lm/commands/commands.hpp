// SPDX-License-Identifier: Apache-2.0
//
// What heed-lm does, one function per subcommand. Results go to standard output, everything else
// (what was loaded, progress, speed) to standard error. Failures are lm::Error or heed's own
// std::invalid_argument, one sentence each.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../model.hpp"
#include "../sampler.hpp"
#include "../tokenizer.hpp"

namespace lm {

// A loaded model, and the threads it runs on.
struct Session {
  Session(const std::string& path, int thread_count);

  std::string chat_template;  // empty: the file has none
  Threads threads;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
};

struct Next {
  std::string prompt;
  Index count = 5;
};
// How keys and values are kept: --cache, --scope, --prefill.
struct Remembering {
  std::string cache = "full";
  heed::Scope scope = heed::Scope::policy;
  heed::Prefill prefill = heed::Prefill::one_shot;

  CacheChoice choice() const {
    CacheChoice choice = CacheChoice::parse(cache);
    choice.scope = scope;
    choice.prompt = prefill;
    return choice;
  }
};
struct Generate {
  std::string prompt;
  bool chat = false;
  Index max_tokens = 100;
  Remembering remembering;
  Sampling sampling;
};
struct Perplexity {
  std::string text;
  Index chunk = 1024;
  Index tokens = 0;  // of the text; 0: all
  bool profile = false;
};
struct Map {
  std::string text, svg = "map.svg";
  Index layer = 0, head = 0;
  Index tokens = 64;
};
struct Entropy {
  std::string text;
  Index tokens = 1024;
};
struct Bench {
  std::vector<Index> lengths{512, 2048, 8192};
  Index steps = 32;  // generated at the end of each length
};

void next(Session& session, const Next& options);
void generate(Session& session, const Generate& options);
void perplexity(Session& session, const Perplexity& options);
void map(Session& session, const Map& options);
void entropy(Session& session, const Entropy& options);
void bench(Session& session, const Bench& options);

// The ids of a text file, the first `most` of them (0: all); at least `least`, or an Error.
std::vector<int> read_text(const Session& session, const std::string& path, Index most,
                           Index least);

// A token as one short word for a table or a picture: valid UTF-8, blanks made visible.
std::string label(const Session& session, int id);

// A number with commas between the thousands.
std::string number(Index value);

}  // namespace lm

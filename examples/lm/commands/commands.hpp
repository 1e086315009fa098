// SPDX-License-Identifier: Apache-2.0
//
// What heed-lm does, one function per subcommand. Results go to standard output, everything else
// (what was loaded, progress, speed) to standard error. Failures are lm::Error or heed's own
// std::invalid_argument, one sentence each.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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
    if (scope != heed::Scope::policy) {
      if (choice.scope != heed::Scope::policy && choice.scope != scope) {
        throw Error("--scope is not what --cache " + cache + " says; one of them is enough");
      }
      choice.scope = scope;
    }
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

// Perplexity by policy and budget.
struct Sweep {
  std::string text, csv, svg = "sweep.svg";
  std::vector<std::string> policies{"full", "window", "window+4", "h2o", "tova", "tova-head"};
  std::vector<Index> budgets{64, 128, 256, 512};
  Index chunk = 2048;
  Index tokens = 20480;  // of the text; 0: all
};
// What a bounded cache keeps of a text.
struct Kept {
  std::string text, html, svg;
  Remembering remembering{.cache = "tova:256", .prefill = heed::Prefill::stepwise};
  Index tokens = 1024;
  Index layer = -1;   // -1: all
  Index least = 5;    // occurrences of a token for the table of survival
  Index count = 20;   // rows of it
};
// Whether a number that a text hides is given back.
struct Passkey {
  std::vector<Index> lengths{512, 1024, 2048};
  std::vector<double> depths{0.1, 0.3, 0.5, 0.7, 0.9};
  std::vector<std::string> caches{"full", "window+4:256", "tova:256"};
  std::vector<heed::Prefill> prefills{heed::Prefill::one_shot};
  Index keys = 5;
  std::uint64_t seed = 1;
  bool chat = false;
  std::string csv, svg = "passkey.svg";
};

void next(Session& session, const Next& options);
void generate(Session& session, const Generate& options);
void perplexity(Session& session, const Perplexity& options);
void map(Session& session, const Map& options);
void entropy(Session& session, const Entropy& options);
void bench(Session& session, const Bench& options);
void sweep(Session& session, const Sweep& options);
void kept(Session& session, const Kept& options);
void passkey(Session& session, const Passkey& options);

// The ids of a text file, the first `most` of them (0: all); at least `least`, or an Error.
std::vector<int> read_text(const Session& session, const std::string& path, Index most,
                           Index least);

// Writes a file, or throws an Error that names it. check_writable: the same Error before the work;
// an empty path is none.
void save(const std::string& path, const std::string& bytes);
void check_writable(const std::string& path);

// An Error that names the option, unless least <= value <= most.
void check_range(const char* option, Index value, Index least, Index most);

// The bytes of a token as valid UTF-8: what is no character is spelled out, like \x0d.
std::string readable(std::string_view piece);
// A token as one short word for a table or a picture: the same, blanks made visible.
std::string label(const Session& session, int id);

// A number with commas between the thousands.
std::string number(Index value);

}  // namespace lm

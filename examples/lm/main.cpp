// SPDX-License-Identifier: Apache-2.0
//
// heed-lm: a language model whose attention is heed's. The command line; what it does is in
// commands/. Whatever goes wrong is one sentence on standard error and exit code 1.

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <thread>

#include "commands/commands.hpp"
#include "default_model.hpp"

namespace {

using lm::Index;

class Program {
 public:
  Program() : app_("A Llama-type language model from a GGUF file, with heed's attention.") {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.add_option("--model", model_, "GGUF file of a Llama-type model")->capture_default_str();
    app_.add_option("--threads", threads_, "threads")->check(CLI::Range(1, 256))
        ->capture_default_str();
    add_next();
    add_generate();
    add_perplexity();
    add_map();
    add_entropy();
    add_bench();
    add_sweep();
    add_kept();
    add_passkey();
  }

  int run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
      std::error_code error;
      if (model_ == lm::default_model() && !std::filesystem::exists(model_, error)) {
        throw lm::Error("there is no model at " + model_ +
                        "; examples/run fetches it, or name another with --model");
      }
      lm::Session session(model_, threads_);
      command_(session);
      return 0;
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() == 0) return app_.exit(e);  // --help
      std::fprintf(stderr, "heed-lm: %s\n", e.what());
    } catch (const std::bad_alloc&) {
      std::fputs("heed-lm: there is not enough memory\n", stderr);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "heed-lm: %s\n", e.what());
    }
    return 1;
  }

 private:
  template <class Options>
  CLI::App* add(const char* name, const char* what, Options& options,
                void (*function)(lm::Session&, const Options&)) {
    CLI::App* const command = app_.add_subcommand(name, what);
    command->callback([this, &options, function] {
      command_ = [&options, function](lm::Session& session) { function(session, options); };
    });
    return command;
  }
  template <class T>
  static CLI::Option* count(CLI::App* app, const char* name, T& value, const char* what,
                            Index least) {
    return app->add_option(name, value, what)
        ->check(CLI::Range(least, Index{1} << 40))->capture_default_str();
  }

  static void cache(CLI::App* app, lm::Remembering& value) {
    app->add_option("--cache", value.cache, "which keys stay: full, tova:256, h2o:256, window:256, "
                    "window+4:256 (with the first 4 tokens), ...")->capture_default_str();
    const std::map<std::string, heed::Scope> scopes{{"layer", heed::Scope::layer},
                                                    {"head", heed::Scope::head}};
    app->add_option("--scope", value.scope, "one set of keys per layer or per key head (default: "
                    "what the policy was published with)")
        ->transform(CLI::CheckedTransformer(scopes));
  }
  template <class T>
  static CLI::Option* prefill(CLI::App* app, T& value) {
    const std::map<std::string, heed::Prefill> ways{{"one-shot", heed::Prefill::one_shot},
                                                    {"stepwise", heed::Prefill::stepwise}};
    return app->add_option("--prefill", value, "a prompt is attended in full and then cut to the "
                    "budget (one-shot, the default), or cut after each token (stepwise)")
        ->transform(CLI::CheckedTransformer(ways));
  }

  void add_next() {
    CLI::App* const c = add("next", "the likeliest next tokens", next_, lm::next);
    c->add_option("--prompt", next_.prompt, "the text so far")->required();
    count(c, "--count", next_.count, "how many", 1);
  }
  void add_generate() {
    CLI::App* const c = add("generate", "goes on with a text", generate_, lm::generate);
    c->add_option("--prompt", generate_.prompt, "the text so far, or with --chat a question")
        ->required();
    c->add_flag("--chat", generate_.chat, "as the model's own chat template asks");
    count(c, "--max-tokens", generate_.max_tokens, "stop after so many", 1);
    c->add_option("--temperature", generate_.sampling.temperature, "0: always the likeliest token")
        ->check(CLI::Range(0.0, 100.0))->capture_default_str();
    count(c, "--top-k", generate_.sampling.top_k, "draw from the likeliest k; 0: from all", 0);
    c->add_option("--seed", generate_.sampling.seed, "of the draws")->capture_default_str();
    cache(c, generate_.remembering);
    prefill(c, generate_.remembering.prefill);
  }
  void add_perplexity() {
    CLI::App* const c =
        add("perplexity", "how well a text is foreseen", perplexity_, lm::perplexity);
    c->add_option("--text", perplexity_.text, "text file")->required();
    count(c, "--chunk", perplexity_.chunk, "tokens that are read together", 2);
    count(c, "--tokens", perplexity_.tokens, "of the text; 0: all", 0);
    c->add_flag("--profile", perplexity_.profile, "also the share of time that attention takes");
  }
  void add_map() {
    CLI::App* const c = add("map", "draws where a head looks", map_, lm::map);
    c->add_option("--text", map_.text, "text file")->required();
    count(c, "--layer", map_.layer, "layer, from 0", 0);
    count(c, "--head", map_.head, "query head, from 0", 0);
    count(c, "--tokens", map_.tokens, "the first so many tokens of the text", 1);
    c->add_option("--svg", map_.svg, "where the picture goes")->capture_default_str();
  }
  void add_entropy() {
    CLI::App* const c = add("entropy", "how widely each head looks", entropy_, lm::entropy);
    c->add_option("--text", entropy_.text, "text file")->required();
    count(c, "--tokens", entropy_.tokens, "the first so many tokens of the text", 1);
  }
  void add_bench() {
    CLI::App* const c =
        add("bench", "tokens/s by length and threads, as a table", bench_, lm::bench);
    c->add_option("--lengths", bench_.lengths, "tokens, prompt and generation together")
        ->delimiter(',')->capture_default_str();
    count(c, "--steps", bench_.steps, "how many of them are generated", 1);
  }
  void add_sweep() {
    CLI::App* const c = add("sweep", "perplexity by policy and budget", sweep_, lm::sweep);
    c->add_option("--text", sweep_.text, "text file")->required();
    c->add_option("--policies", sweep_.policies, "caches without their budgets; -layer or -head "
                  "may follow a name")->delimiter(',')->capture_default_str();
    c->add_option("--budgets", sweep_.budgets, "tokens kept per layer, below --chunk")
        ->delimiter(',')->capture_default_str();
    count(c, "--chunk", sweep_.chunk, "tokens that are read from an empty cache", 2);
    count(c, "--tokens", sweep_.tokens, "of the text, whole chunks of it; 0: all", 0);
    c->add_option("--csv", sweep_.csv, "the numbers as a file");
    c->add_option("--svg", sweep_.svg, "where the picture goes")->capture_default_str();
  }
  void add_kept() {
    CLI::App* const c = add("kept", "shows which tokens a bounded cache keeps", kept_, lm::kept);
    c->add_option("--text", kept_.text, "text file")->required();
    cache(c, kept_.remembering);
    count(c, "--tokens", kept_.tokens, "the first so many tokens of the text", 1);
    c->add_option("--layer", kept_.layer, "of one layer, from 0 (default: over all layers)");
    c->add_option("--html", kept_.html, "the text as a page, shaded by who keeps it");
    c->add_option("--svg", kept_.svg, "the same as a picture");
    count(c, "--least", kept_.least, "occurrences of a token in the table of what stays longest",
          1);
    count(c, "--count", kept_.count, "rows of that table", 1);
  }
  void add_passkey() {
    CLI::App* const c = add("passkey", "is a number found again that a long text hides?", passkey_,
                            lm::passkey);
    c->add_option("--lengths", passkey_.lengths, "tokens of the prompt")
        ->delimiter(',')->capture_default_str();
    c->add_option("--depths", passkey_.depths, "where in the text the number is, 0 to 1")
        ->delimiter(',')->capture_default_str();
    c->add_option("--cache", passkey_.caches, "which keys stay, as in generate, one or more")
        ->delimiter(',')->capture_default_str();
    prefill(c, passkey_.prefills)->delimiter(',');
    count(c, "--keys", passkey_.keys, "numbers per length and depth", 1);
    c->add_option("--seed", passkey_.seed, "of the numbers")->capture_default_str();
    c->add_flag("--chat", passkey_.chat, "as the model's own chat template asks");
    c->add_option("--csv", passkey_.csv, "the answers as a file");
    c->add_option("--svg", passkey_.svg, "where the picture goes")->capture_default_str();
  }

  CLI::App app_;
  std::string model_ = lm::default_model().string();
  int threads_ = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 256u));
  std::function<void(lm::Session&)> command_;
  lm::Next next_;
  lm::Generate generate_;
  lm::Perplexity perplexity_;
  lm::Map map_;
  lm::Entropy entropy_;
  lm::Bench bench_;
  lm::Sweep sweep_;
  lm::Kept kept_;
  lm::Passkey passkey_;
};

}  // namespace

int main(int argc, char** argv) { return Program().run(argc, argv); }

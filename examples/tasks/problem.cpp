// SPDX-License-Identifier: Apache-2.0
//
// Generators, sizes, and the paper's figures.

#include "problem.hpp"

namespace tasks {

namespace {

// ------------------------------------------------------------------------------------- flip-flop
enum FlipFlop { kWrite, kRead, kIgnore, kZero, kOne, kFlipFlopTokens };

Sample draw_flip_flop(Random& random, Index pairs, double ignore) {
  Sample s;
  int written = 0;
  for (Index i = 0; i < pairs; ++i) {
    int instruction = i == 0 ? kWrite : kRead;
    if (i > 0 && i + 1 < pairs) {
      const double u = random.uniform();
      instruction = u < ignore ? kIgnore : u < (1 + ignore) / 2 ? kWrite : kRead;
    }
    int bit = random.below(2);
    if (instruction == kRead) bit = written;
    if (instruction == kWrite) written = bit;
    s.tokens.insert(s.tokens.end(), {instruction, kZero + bit});
    s.targets.insert(s.targets.end(), {instruction == kRead ? kZero + bit : -1, -1});
  }
  return s;
}

// --------------------------------------------------------------------------------- selective copy
constexpr int kLetters = 16, kBlank = 16, kMarker = 17, kCopyTokens = 18;

Sample draw_selective_copy(Random& random, Index payload, Index blanks) {
  Sample s;
  std::vector<int> letters;
  for (Index left = payload + blanks; left > 0; --left) {   // each place is as likely as any
    const Index letters_left = payload - Index(letters.size());
    const bool letter = random.below(int(left)) < letters_left;
    if (letter) letters.push_back(random.below(kLetters));
    s.tokens.push_back(letter ? letters.back() : kBlank);
    s.targets.push_back(-1);
  }
  s.tokens.push_back(kMarker);
  for (const int letter : letters) {
    s.targets.push_back(letter);
    s.tokens.push_back(letter);
  }
  s.tokens.pop_back();   // nothing is asked after the last
  return s;
}

// --------------------------------------------------------------------------------------- counting
// Tokens: variables, numbers 0 ... 10, and the words.
constexpr int kVariables = 5, kLargest = 10, kNumbers = kVariables;
enum Words { kIs = kNumbers + kLargest + 1, kEnd, kPass, kPlus, kPrint, kCountingTokens };

Sample draw_counting(Random& random, int variables, int least, int most, std::size_t longest) {
  std::vector<int> value(std::size_t(variables), -1), tokens;
  const int operations = least + random.below(most - least + 1);
  for (int done = 0; done < operations;) {
    const int kind = random.below(58), v = random.below(variables);   // set 1, pass 50, add 7
    int& of = value[std::size_t(v)];
    if (kind == 0) {
      of = 0;
      tokens.insert(tokens.end(), {v, kIs, kNumbers, kEnd});
    } else if (kind <= 50) {
      tokens.push_back(kPass);
    } else if (of >= 0 && of < kLargest) {
      ++of;
      tokens.insert(tokens.end(), {v, kPlus});
    } else {
      continue;   // drawn again
    }
    ++done;
  }
  int asked = random.below(variables);
  const bool any = std::any_of(value.begin(), value.end(), [](int x) { return x >= 0; });
  if (!any) return draw_counting(random, variables, least, most, longest);
  while (value[std::size_t(asked)] < 0) asked = random.below(variables);
  tokens.insert(tokens.end(), {kPrint, asked});
  if (tokens.size() > longest) tokens.erase(tokens.begin(), tokens.end() - std::ptrdiff_t(longest));
  Sample s{tokens, std::vector<int>(tokens.size(), -1)};
  s.targets.back() = kNumbers + value[std::size_t(asked)];
  return s;
}

ModelShape model_of(Index layers, Index width, Index heads, Index vocabulary, Index vectors,
                    Index hidden = 2) {
  ModelShape shape;
  shape.vocabulary = vocabulary;
  shape.layers = layers;
  shape.width = width;
  shape.heads = heads;
  shape.hidden = hidden * width;
  shape.vectors = vectors;
  return shape;
}

}  // namespace

Plan flip_flop(Size size) {
  Plan plan;
  const Index pairs = size == Size::tiny ? 32 : size == Size::small ? 128 : 256;
  const auto set = [pairs](std::string name, double ignore, Index n) {
    return Set{std::move(name), n,
               [pairs, ignore](Random& r) { return draw_flip_flop(r, pairs, ignore); }};
  };
  const Index unit = size == Size::tiny ? 512 : size == Size::small ? 500 : 4000;
  plan.problem = "flip-flop";
  plan.training = set("training", 0.8, size == Size::paper ? 1'600'000 : 0);
  plan.tests = {set("in", 0.8, size == Size::paper ? 16'000 : unit), set("dense", 0.1, unit),
                set("sparse", 0.98, size == Size::paper ? 160'000 : 4 * unit)};
  plan.shape = size == Size::tiny    ? model_of(2, 32, 2, kFlipFlopTokens, 16, 4)
               : size == Size::small ? model_of(2, 64, 4, kFlipFlopTokens, 64)
                                     : model_of(4, 256, 4, kFlipFlopTokens, 64, 4);
  plan.shape.longest = 2 * pairs;
  plan.schedule.steps = size == Size::tiny ? 1200 : size == Size::small ? 1200 : 10'000;
  plan.schedule.peak = size == Size::tiny ? 3e-3 : size == Size::small ? 2e-3 : 3e-4;
  plan.batch = size == Size::tiny ? 32 : 16;
  plan.summary = std::to_string(pairs) + " pairs; trained on FFL(0.8), tested on FFL(0.8) in, "
                 "FFL(0.1) dense, FFL(0.98) sparse; error: share of wrong reads";
  return plan;
}

Plan selective_copy(Size size) {
  Plan plan;
  const Index payload = size == Size::tiny ? 8 : 16;
  const Index blanks = size == Size::tiny ? 16 : size == Size::small ? 32 : 256;
  const auto set = [payload](std::string name, Index b, Index n) {
    return Set{std::move(name), n,
               [payload, b](Random& r) { return draw_selective_copy(r, payload, b); }};
  };
  const Index unit = size == Size::tiny ? 256 : 1000;
  plan.problem = "selective-copy";
  plan.by_sequence = true;
  plan.training = set("training", blanks, 0);
  plan.tests = {set("in", blanks, unit), set("dense", blanks / 2, unit),
                set("sparse", blanks * 2, unit)};
  plan.shape = size == Size::tiny    ? model_of(2, 64, 4, kCopyTokens, 32)
               : size == Size::small ? model_of(2, 64, 4, kCopyTokens, 64)
                                     : model_of(4, 256, 4, kCopyTokens, 64, 4);
  plan.shape.longest = 2 * blanks + 2 * payload;
  plan.schedule.steps = size == Size::tiny ? 1500 : size == Size::small ? 3000 : 20'000;
  plan.schedule.peak = size == Size::paper ? 3e-4 : 2e-3;
  plan.summary = std::to_string(payload) + " payload tokens of 16 kinds, " +
                 std::to_string(blanks) + " blanks in training and test, half of that dense, twice "
                 "that sparse; error: share of sequences with any wrong token";
  return plan;
}

Plan counting(Size size, int variables) {
  Plan plan;
  const bool paper = size == Size::paper;
  const int most = size == Size::tiny ? 32 : size == Size::small ? 64 : 512;
  const auto longest = std::size_t(paper ? 512 : 3 * most / 2);
  const auto set = [=](std::string name, int least, int last, std::size_t length, Index n) {
    return Set{std::move(name), n, [=](Random& r) {
                 return draw_counting(r, variables, least, last, length);
               }};
  };
  plan.problem = "counting-" + std::to_string(variables);
  plan.training = set("training", 3, most, longest, paper ? 10'000 : 0);
  plan.tests = {set("in", 3, most, longest, size == Size::tiny ? 500 : 1000),
                set("longer", most + 1, 2 * most, 2 * longest, size == Size::tiny ? 500 : 1000)};
  plan.shape = size == Size::tiny    ? model_of(2, 64, 4, kCountingTokens, 33)
               : size == Size::small ? model_of(2, 64, 4, kCountingTokens, 65)
                                     : model_of(4, 256, 4, kCountingTokens, 513, 4);
  plan.shape.longest = Index(2 * longest);
  plan.schedule.steps = size == Size::tiny ? 1500 : 3000;
  plan.schedule.peak = 2e-3;
  if (paper) {   // as the released script: Adam, 100 epochs, constant rate
    plan.shape.post_norm = true;
    plan.shape.dropout = 0.1f;
    plan.shape.form = heed::CopeForm::b;
    plan.schedule = {.peak = 7e-5, .warm_up = 0, .steps = 15'700, .cosine = false, .decay = 0,
                     .beta2 = 0.999, .clip = 0};
    plan.batch = 64;
  }
  plan.summary = std::to_string(variables) + " variables, 3 to " + std::to_string(most) +
                 " operations, the test set `longer` (ours) up to " + std::to_string(2 * most) +
                 "; error: share of wrong values";
  return plan;
}

std::optional<double> paper_error(const std::string& problem, const std::string& set, Pe pe) {
  struct Figure {
    const char* problem;
    const char* set;
    Pe pe;
    double error;
  };
  // Tables 2 and 3 of arXiv 2405.18719; flip-flop's out-of-distribution set is the sparse one.
  static constexpr Figure kFigures[] = {
      {"flip-flop", "in", Pe::absolute, 6.8},
      {"flip-flop", "in", Pe::rope, 1.8},
      {"flip-flop", "in", Pe::cope, 0.0},
      {"flip-flop", "sparse", Pe::absolute, 21.7},
      {"flip-flop", "sparse", Pe::rope, 20.3},
      {"flip-flop", "sparse", Pe::cope, 4.9},
      {"selective-copy", "in", Pe::absolute, 16.9},
      {"selective-copy", "in", Pe::rope, 40.1},
      {"selective-copy", "in", Pe::cope, 0.0},
      {"selective-copy", "dense", Pe::absolute, 25.6},
      {"selective-copy", "dense", Pe::rope, 100.0},
      {"selective-copy", "dense", Pe::cope, 0.0},
      {"selective-copy", "sparse", Pe::absolute, 85.2},
      {"selective-copy", "sparse", Pe::rope, 100.0},
      {"selective-copy", "sparse", Pe::cope, 0.0},
      {"counting-1", "in", Pe::absolute, 5.3},
      {"counting-1", "in", Pe::relative, 1.1},
      {"counting-1", "in", Pe::cope, 0.0},
      {"counting-3", "in", Pe::absolute, 67.6},
      {"counting-3", "in", Pe::relative, 17.8},
      {"counting-3", "in", Pe::cope, 1.2},
      {"counting-5", "in", Pe::absolute, 71.5},
      {"counting-5", "in", Pe::relative, 22.4},
      {"counting-5", "in", Pe::cope, 7.4}};
  for (const Figure& f : kFigures) {
    if (problem == f.problem && set == f.set && pe == f.pe) return f.error;
  }
  return std::nullopt;
}

Batch make_batch(const std::vector<Sample>& samples) {
  std::size_t longest = 1;
  for (const Sample& s : samples) longest = std::max(longest, s.tokens.size());
  Batch batch(Index(samples.size()), Index(longest));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto at = std::ptrdiff_t(i * longest);
    std::copy(samples[i].tokens.begin(), samples[i].tokens.end(), batch.tokens.begin() + at);
    std::copy(samples[i].targets.begin(), samples[i].targets.end(), batch.targets.begin() + at);
  }
  return batch;
}

}  // namespace tasks

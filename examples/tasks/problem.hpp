// SPDX-License-Identifier: Apache-2.0
//
// The toy problems: how sequences are drawn, what is asked in them, and which sets are tested.
//
//   flip-flop        (Liu et al., arXiv 2306.00946) pairs of an instruction and a bit: w writes the
//                    bit, i ignores it, r reads: the bit after r is the last one written. FFL(p):
//                    a share p of the instructions is i. Asked: the bit after each r.
//   selective copy   (Gu and Dao, arXiv 2312.00752; CoPE's version) blanks with payload tokens
//                    among them, a marker, then the payload in its order.
//   counting         (CoPE's released generator) a = 0 ; a ++; pass; ... print a -> its value.
//
// Sizes other than `paper` are ours.

#pragma once

#include <functional>
#include <optional>

#include "model.hpp"

namespace tasks {

enum class Size { tiny, small, paper };

// One sequence; a target below 0 is not asked for.
struct Sample {
  std::vector<int> tokens, targets;
};

struct Set {
  std::string name;
  Index sequences = 0;   // training: how many different ones there are; 0: a new one each time
  std::function<Sample(Random&)> draw;
};

// A problem with the model and the training that go with its size; the encoding is still open.
struct Plan {
  std::string problem;      // also the start of file names
  std::string summary;      // one line for the report
  bool by_sequence = false; // an error is a sequence with any wrong answer, not a wrong answer
  Set training;
  std::vector<Set> tests;
  ModelShape shape;
  Schedule schedule;
  Index batch = 32;
};

Plan flip_flop(Size size);
Plan selective_copy(Size size);
Plan counting(Size size, int variables);

// The CoPE paper's test error in per cent (reference figures), where it has one.
std::optional<double> paper_error(const std::string& problem, const std::string& set, Pe pe);

// Sequences padded to the longest.
Batch make_batch(const std::vector<Sample>& samples);

}  // namespace tasks

// SPDX-License-Identifier: Apache-2.0
//
// What runs came to: a table of errors beside the paper's, as text, CSV and SVG.

#pragma once

#include "trainer.hpp"

namespace tasks {

// One trained model.
struct Run {
  std::string problem;
  Pe pe = Pe::cope;
  std::uint64_t seed = 0;
  Index steps = 0, parameters = 0;
  double seconds = 0, first_loss = 0, last_loss = 0;
  std::vector<std::string> sets;
  std::vector<Score> scores;     // one per set
  bool by_sequence = false;

  double error(std::size_t set) const;   // per cent
};

// Rows are encodings, columns are sets; mean over the seeds, with the range where there are
// several; the paper's figure in brackets.
std::string as_text(const std::vector<Run>& runs);
std::string as_csv(const std::vector<Run>& runs);
std::string as_svg(const std::vector<Run>& runs, const std::string& title,
                   const std::string& subtitle);

void write_file(const std::string& path, const std::string& content);

}  // namespace tasks

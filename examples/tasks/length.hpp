// SPDX-License-Identifier: Apache-2.0
//
// Language modelling and length: the same small model is trained on a text with each encoding at
// one length and evaluated at longer ones (the extrapolation figure of arXiv 2405.18719 and the
// first figure of arXiv 2404.12224, at toy scale). For NoPE, one uniform scale and one scale per
// head are then fitted on longer sequences, everything else frozen.

#pragma once

#include "trainer.hpp"

namespace tasks {

struct LengthOptions {
  std::string text = "/usr/share/common-licenses";
  std::vector<Pe> encodings;
  std::uint64_t seed = 1;
  Size size = Size::small;
  Index steps = 0;        // 0: the size's own
  Index fit_length = 0;   // of the sequences that scales are fitted on; 0: 4 x the training length
  std::string csv, svg;
  RunOptions run;
};

int length(const LengthOptions& options, const Device& device);

}  // namespace tasks

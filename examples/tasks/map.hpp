// SPDX-License-Identifier: Apache-2.0
//
// Looks into a trained CoPE model: for one test sequence, the attention map of every layer and
// head, and below it the positions that the head has counted for each key.

#pragma once

#include "trainer.hpp"

namespace tasks {

// Where the last query of a head looks, and what it has counted, as text and as SVG.
std::string map_as_text(Trainer& trainer, const Sample& sample,
                        const std::vector<std::string>& names);
std::string map_as_svg(Trainer& trainer, const Sample& sample,
                       const std::vector<std::string>& names, const std::string& title);

// What a token is called in the pictures of a problem.
std::vector<std::string> token_names(const std::string& problem);

}  // namespace tasks

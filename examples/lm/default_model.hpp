// SPDX-License-Identifier: Apache-2.0
//
// Where the model is that examples/run fetches: ${XDG_CACHE_HOME:-$HOME/.cache}/heed.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lm {

inline std::filesystem::path default_model() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = std::filesystem::path(variable("HOME")) / ".cache";
  return cache / "heed" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace lm

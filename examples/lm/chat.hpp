// SPDX-License-Identifier: Apache-2.0
//
// ChatML, as far as a file's own template asks for it: its system message, then the user's. What
// follows is the answer.

#pragma once

#include <string>
#include <string_view>

#include "gguf.hpp"

namespace lm {

// without: what the user leaves out or adds where there is no such template.
inline std::string chat(std::string_view chat_template, const std::string& message,
                        const std::string& without) {
  if (chat_template.find("<|im_start|>") == std::string_view::npos) {
    throw Error((chat_template.empty() ? "the model file has no chat template; "
                                       : "the model file's chat template is not ChatML; ") +
                without);
  }
  std::string text;
  constexpr std::string_view kSystem = "<|im_start|>system\n", kEnd = "<|im_end|>";
  const std::size_t begin = chat_template.find(kSystem);
  const std::size_t end =
      begin == std::string_view::npos ? begin : chat_template.find(kEnd, begin);
  if (end != std::string_view::npos) {
    const std::string_view system = chat_template.substr(begin, end - begin);
    // Words that are filled in are no default.
    if (system.find('{') == std::string_view::npos && system.find('\'') == std::string_view::npos) {
      text.append(system).append(kEnd).append("\n");
    }
  }
  return text + "<|im_start|>user\n" + message + "<|im_end|>\n<|im_start|>assistant\n";
}

}  // namespace lm

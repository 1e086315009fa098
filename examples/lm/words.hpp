// SPDX-License-Identifier: Apache-2.0
//
// Cutting a text into the words within which a byte-pair encoding merges. The rule is a regular
// expression over Unicode categories, so PCRE2 does it: its tables of letters and numbers are the
// bulk of such code, and the rule stays as readable as the models state it.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lm {

class Words {
 public:
  // The rule by the name in `tokenizer.ggml.pre`; throws Error for one that is not known here:
  //   gpt-2    letters, numbers or other symbols, each with one space before; English endings
  //            such as 's; white space, whose last space goes to the word after it
  //   smollm   the same after every number has been cut out alone
  explicit Words(std::string_view rule);

  // The parts of `text`, in order and without gaps. Any bytes: one that is no part of well-formed
  // UTF-8 counts as a symbol. Cost: one pass, and one copy of the text.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  std::shared_ptr<const void> code_;
};

// `text` with the byte 1, a symbol in every rule, for each byte that is no part of well-formed
// UTF-8 (Unicode 15, table 3-7).
std::string well_formed(std::string_view text);

}  // namespace lm

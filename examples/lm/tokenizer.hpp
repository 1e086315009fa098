// SPDX-License-Identifier: Apache-2.0
//
// Byte-level byte-pair encoding (Sennrich et al. 2016; the byte alphabet is GPT-2's) with the
// vocabulary and the merges of a GGUF file. A text is cut at the special tokens, the parts are cut
// into words as `tokenizer.ggml.pre` says, and within a word the neighbours whose merge comes
// first in the list are joined until none is left. Any bytes may be encoded and decode to
// themselves: a byte that is no part of well-formed UTF-8 counts as a symbol of its own.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf.hpp"

namespace lm {

class Tokenizer {
 public:
  // Copies what it needs from the file. Throws Error on a file without a vocabulary of this kind.
  explicit Tokenizer(const Gguf& file);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // The ids of a text. parse_special: a control token that is spelled out, like "<|im_end|>",
  // becomes its id; without, it is text like any other. No start token is added (see `prompt`).
  // A byte for which the vocabulary has no token becomes size() + byte, which decode knows and no
  // model does: `known` leaves such ids out. Cost: n log n in the longest word.
  std::vector<int> encode(std::string_view text, bool parse_special) const;

  // encode for the beginning of a text: where the file asks for a start token and the ids do not
  // already begin with it, it stands in front.
  std::vector<int> prompt(std::string_view text, bool parse_special) const;

  // The ids that a model has a row for, as the reference tokenizers do.
  std::vector<int> known(std::vector<int> ids) const;

  // The bytes of one token, or of all, which need not be whole characters. Control tokens give
  // their text. Throws Error for an id outside 0 .. size() + 255.
  std::string piece(int id) const;
  std::string decode(std::span<const int> ids) const;

  int size() const;                // tokens in the vocabulary
  std::optional<int> bos() const;  // start of text
  std::optional<int> eos() const;  // end of text
  bool is_control(int id) const;   // a token that is no text

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
};

}  // namespace lm

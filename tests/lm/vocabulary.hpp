// SPDX-License-Identifier: Apache-2.0
//
// A small valid file with a tokenizer: the 256 bytes in GPT-2's alphabet (or the first of them), a
// few merges, and three control tokens, one of which begins another.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gguf_builder.hpp"

namespace lm_test {

// The character of GPT-2's alphabet for a byte, written from the definition: what prints in
// Latin-1 stands for itself, the rest is numbered from 256 on.
inline std::string letter(int byte) {
  const auto prints = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  int point = byte;
  if (!prints(byte)) {
    point = 256;
    for (int b = 0; b < byte; ++b) point += !prints(b);
  }
  if (point < 128) return {static_cast<char>(point)};
  return {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<std::uint8_t> types;  // 1 normal, 3 control, 4 user defined
  std::vector<std::string> merges;

  void add(std::string token, std::uint8_t type) {
    tokens.push_back(std::move(token));
    types.push_back(type);
  }
  // By value: they may be tokens of this vocabulary, which grows.
  void merge(std::string left, std::string right) {
    add(left + right, 1);
    merges.push_back(left + " " + right);
  }
  void into(Builder& builder, const std::string& rule = "smollm") const {
    builder.string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", rule)
        .strings("tokenizer.ggml.tokens", tokens)
        .numbers<std::uint8_t>("tokenizer.ggml.token_type", kU8, types)
        .strings("tokenizer.ggml.merges", merges);
  }
};

// Ids: 0 <|a|>, 1 <|b|>, 2 <|b|>!, then the bytes from `first` to `last`, then the merges.
inline Vocabulary small_vocabulary(int first = 0, int last = 255) {
  Vocabulary v;
  v.add("<|a|>", 3);
  v.add("<|b|>", 3);
  v.add("<|b|>!", 3);
  for (int b = first; b <= last; ++b) v.add(letter(b), 1);
  if (first <= 'a' && last >= 'u') {
    v.merge("t", "h");
    v.merge("th", "e");
    v.merge("a", "a");
    v.merge("aa", "aa");
  }
  return v;
}

inline constexpr int kFirstByte = 3;  // id of the first byte in small_vocabulary

// At most 4096 bytes: every type of value and tensor, and the vocabulary.
inline Bytes small_file(int first = 0, int last = 255) {
  Builder builder;
  builder.string("general.architecture", "llama")
      .u32("general.alignment", 32)
      .number("a.u64", kU64, std::uint64_t{7})
      .f32("a.f32", 0.5f)
      .u32("tokenizer.ggml.bos_token_id", 0)
      .u32("tokenizer.ggml.eos_token_id", 1)
      .flag("tokenizer.ggml.add_bos_token", true);
  small_vocabulary(first, last).into(builder);
  builder.tensor("f32", {4, 2}, lm::Type::kF32, counting(32))
      .tensor("f16", {3}, lm::Type::kF16, counting(6))
      .tensor("bf16", {2, 2, 1}, lm::Type::kBf16, counting(8))
      .tensor("q4_1", {32, 2}, lm::Type::kQ4_1, counting(40))
      .tensor("q8_0", {32}, lm::Type::kQ8_0, counting(34));
  return builder.bytes();
}

}  // namespace lm_test

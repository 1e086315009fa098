// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any bytes as a text for a small fixed vocabulary. The text must come back from its
// ids, without control tokens unless they were asked for, and a start token stands once.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lm/vocabulary.hpp"
#include "tokenizer.hpp"

namespace {

lm::Tokenizer make(const char* rule, int last) {
  lm_test::Builder builder;
  builder.u32("tokenizer.ggml.bos_token_id", 0).flag("tokenizer.ggml.add_bos_token", true);
  lm_test::small_vocabulary(0, last).into(builder, rule);
  const auto bytes = builder.bytes();
  return lm::Tokenizer(lm::Gguf::parse(bytes, "vocabulary"));
}

void check(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const lm::Tokenizer smollm = make("smollm", 255), gpt2 = make("gpt-2", 255),
                             short_of_bytes = make("smollm", 127);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const lm::Tokenizer* tokenizer : {&smollm, &gpt2, &short_of_bytes}) {
    for (const bool special : {false, true}) {
      const auto ids = tokenizer->encode(text, special);
      check(tokenizer->decode(ids) == text);
      check(ids.size() <= text.size());
      if (!special) {
        for (const int id : ids) check(!tokenizer->is_control(id));
      }
      const auto prompt = tokenizer->prompt(text, special);
      check(!prompt.empty() && prompt[0] == 0 && prompt.size() <= ids.size() + 1);
      for (const int id : tokenizer->known(ids)) check(id < tokenizer->size());
    }
  }
  return 0;
}

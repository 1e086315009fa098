// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any bytes as a GGUF file. It is read to the end (values, tensors as floats, tokenizer)
// or refused with lm::Error; anything else is a finding. Run with -malloc_limit_mb to find
// allocations out of proportion.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dequantize.hpp"
#include "tokenizer.hpp"

namespace {

// Every way of asking for a value; most are refused.
void ask(const lm::Gguf& file, std::string_view key) {
  const auto quietly = [](auto&& call) {
    try {
      static_cast<void>(call());
    } catch (const lm::Error&) {
    }
  };
  quietly([&] { return file.get_u32(key); });
  quietly([&] { return file.get_f32(key); });
  quietly([&] { return file.get_bool(key, true); });
  quietly([&] { return file.get_string(key); });
  quietly([&] { return file.get_strings(key); });
  quietly([&] { return file.get_u32s(key); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto file = lm::Gguf::parse(bytes, "file");
    for (const char* key : {"general.alignment", "a", "tokenizer.ggml.model"}) ask(file, key);
    float sum = 0;
    for (const auto& tensor : file.tensors()) sum += lm::dequantize(tensor)(0, 0);
    static_cast<void>(sum);
    const lm::Tokenizer tokenizer(file);
    for (const bool special : {false, true}) {
      const std::string text = "the <|b|>! aaaa 12\xff";
      const auto ids = tokenizer.encode(text, special);
      if (tokenizer.decode(ids) != text) __builtin_trap();
    }
  } catch (const lm::Error&) {
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// seeds FOLDER: writes small valid GGUF files for gguf_fuzz to begin with. They are made, not kept,
// so the tree holds only what a fuzzer has found.

#include <filesystem>
#include <fstream>

#include "lm/vocabulary.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const lm_test::Bytes& bytes) {
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  write("whole", lm_test::small_file());
  write("short", lm_test::small_file('a', 'u'));
  lm_test::Builder plain;
  plain.u32("general.alignment", 64).string("a", "b");
  plain.alignment = 64;
  plain.tensor("w", {32, 2, 2}, lm::Type::kQ8_0, lm_test::counting(136));
  write("plain", plain.bytes());
  write("empty", lm_test::Builder{}.bytes());
}

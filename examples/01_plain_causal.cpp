// SPDX-License-Identifier: Apache-2.0
//
// Plain causal attention. Eight words with two features each: who acts, and where. A query asks
// for a feature, a key offers one. The values are unit vectors, so row i of the output is itself
// the list of the weights of row i: how much word i looks at each word up to itself.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <cstdio>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, heads, time, dim]

int main() {
  struct Word {
    const char* text;
    float asks[2], offers[2];  // {who, where}
  };
  const Word words[] = {
      {"the", {0, 0}, {0, 0}},    {"cat", {0, 0}, {3, 0}}, {"sat", {2, 0}, {0, 0}},
      {"there", {0, 2}, {0, 0}},  // asks where, but the mat has not been said yet
      {"on", {0, 0}, {0, 0}},     {"the", {0, 0}, {0, 0}}, {"mat", {0, 0}, {0, 3}},
      {"purring", {2, 1}, {0, 0}}};
  constexpr int n = 8;

  Tensor q(1, 1, n, 2), k(1, 1, n, 2), v(1, 1, n, n);
  v.setZero();
  for (int i = 0; i < n; ++i) {
    for (int d = 0; d < 2; ++d) {
      q(0, 0, i, d) = words[i].asks[d];
      k(0, 0, i, d) = words[i].offers[d];
    }
    v(0, 0, i, i) = 1;
  }

  const Tensor out = heed::attend(q, k, v, heed::causal);

  std::printf("percent of attention, one row per query\n\n%8s", "");
  for (const Word& word : words) std::printf("%8s", word.text);
  for (int i = 0; i < n; ++i) {
    std::printf("\n%8s", words[i].text);
    for (int j = 0; j <= i; ++j) std::printf("%8.0f", 100.0 * out(0, 0, i, j));
  }
  std::printf(
      "\n\nWords that ask nothing look at all words so far alike. \"sat\" and \"purring\" find"
      "\nthe cat. \"there\" asks where, and the mat is still hidden from it.\n");
}

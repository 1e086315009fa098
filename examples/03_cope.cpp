// SPDX-License-Identifier: Apache-2.0
//
// Who was the last x in "xyyyyxyyy"? Attention with CoPE counts x's, so it finds the last one
// however long ago that was. A bias by distance loses it: the x is worth an advantage over every y,
// each step back costs a slope, and beyond advantage / slope steps the nearest y wins.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <cstdio>
#include <string>
#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, heads, time, dim]
using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int main() {
  const float logit = 14;                // of an x; a y gets -14, so the advantage is 28
  const std::vector<float> slope{8};     // per step back: the x is lost after 28 / 8 = 3.5 steps
  const Table table{{0}, {logit}, {0}};  // CoPE: favours position 1, "one x back"

  std::printf("y's since the last x   it gets by distance   and by CoPE\n");
  for (const int gap : {1, 2, 3, 4, 5, 100, 10000}) {
    const std::string text = "xyyyyx" + std::string(std::size_t(gap), 'y');
    const auto n = heed::Index(text.size());
    Tensor q(1, 1, 1, 1), k(1, 1, n, 1), v(1, 1, n, 1);
    q.setConstant(1);  // one query, the last character
    for (heed::Index i = 0; i < n; ++i) {
      k(0, 0, i, 0) = text[std::size_t(i)] == 'x' ? logit : -logit;
    }
    v.setZero();  // so that the output is the share of attention that the last x gets
    v(0, 0, heed::Index(text.rfind('x')), 0) = 1;

    const Tensor relative = heed::attend(q, k, v, heed::causal, heed::Alibi{slope});
    const Tensor cope = heed::attend(q, k, v, heed::causal, heed::Cope{table});

    std::printf("%20d %19.0f %% %11.0f %%\n", gap, 100.0 * relative(0, 0, 0, 0),
                100.0 * cope(0, 0, 0, 0));
  }
}

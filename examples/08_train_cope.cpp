// SPDX-License-Identifier: Apache-2.0
//
// Training a CoPE table. In a text of x's and y's every x carries a number, 1 or -1, and the answer
// at each place is the number of the x before the last one. No distance says where that is, but a
// count does. The table starts at zero, where CoPE is plain attention and gives the mean of all
// x's; gradient descent finds the count to look at. Then a text ten times as long.

#include <unsupported/Eigen/CXX11/Tensor>

#include <heed/heed.hpp>

#include <cstdint>
#include <cstdio>
#include <vector>

using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, heads, time, dim]
using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using heed::Index;

struct Text {
  Tensor q, k, v, answer;      // an answer of 0: there is none yet
  Text(Index length, std::uint32_t seed)
      : q(1, 1, length, 1), k(q), v(q), answer(q) {
    q.setConstant(1);
    float last = 0, before = 0;  // numbers of the last x's
    for (Index i = 0; i < length; ++i) {
      seed = seed * 1664525 + 1013904223;
      const bool x = seed >> 30 == 0;  // one letter in four
      v(0, 0, i, 0) = x ? (seed >> 20 & 1 ? 1.0f : -1.0f) : 0.0f;
      k(0, 0, i, 0) = x ? 7.0f : -7.0f;  // an x opens its gate, a y does not
      if (x) before = last, last = v(0, 0, i, 0);
      answer(0, 0, i, 0) = before;
    }
  }
};

// Half the mean squared error, its derivative in dout, and the share of wrong signs.
struct Judged {
  double loss = 0, wrong = 0;
  Tensor dout;
  Judged(const Text& text, const Tensor& out) : dout(out) {
    dout.setZero();
    Index asked = 0;
    for (Index i = 0; i < out.size(); ++i) asked += text.answer.data()[i] != 0;
    for (Index i = 0; i < out.size(); ++i) {
      const float answer = text.answer.data()[i], error = out.data()[i] - answer;
      if (answer == 0) continue;
      loss += 0.5 * double(error * error) / double(asked);
      wrong += double(out.data()[i] * answer <= 0) / double(asked);
      dout.data()[i] = error / float(asked);
    }
  }
};

int main() {
  const Text lesson(300, 1), exam(3000, 2);
  Table table = Table::Zero(5, 1);  // positions 0 ... 4, "four or more" included

  for (int step = 0; step <= 50; ++step) {
    const auto policy = heed::pack(heed::causal, heed::Cope{table});
    const auto saved = heed::attend_saving(lesson.q, lesson.k, lesson.v, policy);
    const Judged judged(lesson, saved.out);
    if (step % 10 == 0) std::printf("step %3d   loss %.2f\n", step, judged.loss);
    const auto grad =
        heed::attend_backward(lesson.q, lesson.k, lesson.v, saved, judged.dout, policy);
    table -= 2.0f * grad.of<heed::Cope>().table();
  }

  std::printf("\nThe most attended count of x's, from the last one: %s\n",
              table(2, 0) == table.maxCoeff() ? "2" : "not 2");
  const Judged cope(exam, heed::attend(exam.q, exam.k, exam.v, heed::causal, heed::Cope{table}));
  const Judged plain(exam, heed::attend(exam.q, exam.k, exam.v, heed::causal));
  std::printf("Wrong in a text ten times as long: %.0f %%, plain attention %.0f %%\n",
              100 * cope.wrong, 100 * plain.wrong);
}

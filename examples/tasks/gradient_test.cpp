// SPDX-License-Identifier: Apache-2.0
//
// The whole model's gradient against central differences, for every encoding: along random
// directions within each of its matrices, in both orders of the norms. The loss is computed in
// float, so steps are large, and a step that crosses a kink (a ReLU, an integer position) is off:
// of three directions the best counts, and the tolerance is a per cent of the largest slope.

#include <cstdio>

#include "model.hpp"

namespace {

using namespace tasks;

constexpr double kStep = 1e-3;

Batch random_batch(std::uint64_t seed) {
  Batch batch(3, 9);
  Random random(seed, Stream::training);
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    batch.tokens[i] = random.below(7);
    if (random.below(2) == 0) batch.targets[i] = random.below(7);
  }
  return batch;
}

// Largest error over the matrices, relative to the largest slope.
double check(const ModelShape& shape) {
  const Model model(shape);
  Vector weights = model.initial_weights(1);
  Random random(2, Stream::weights);
  for (float& w : weights) w += static_cast<float>(0.1 * random.normal());
  const Batch batch = random_batch(3);
  Pass pass(model);
  Vector gradient = Vector::Zero(weights.size());
  pass.forward(weights, batch, 0, batch.count);
  pass.backward(weights, 1, gradient);

  double largest = 0, worst = 0;
  for (const auto& slice : model.layout().slices()) {
    double least = INFINITY;
    for (int attempt = 0; attempt < 3; ++attempt) {   // a mistake shows along every direction
      Vector direction = Vector::Zero(weights.size());
      for (float& d : direction.segment(slice->offset, slice->size())) {
        d = static_cast<float>(random.normal());
      }
      direction.normalize();
      const auto loss = [&](double h) {
        return pass.forward(weights + static_cast<float>(h) * direction, batch, 0, batch.count)
            .loss;
      };
      const double slope = (loss(kStep) - loss(-kStep)) / (2 * kStep);
      const double found = direction.cast<double>().dot(gradient.cast<double>());
      largest = std::max(largest, std::abs(slope));
      least = std::min(least, std::abs(slope - found));
    }
    worst = std::max(worst, least);
  }
  return worst / largest;
}

}  // namespace

int main() {
  int failures = 0;
  for (const auto& [name, pe] : kEncodings) {
    for (const bool post_norm : {false, true}) {
      for (const heed::CopeForm form : {heed::CopeForm::a, heed::CopeForm::b}) {
        if (form == heed::CopeForm::b && pe != Pe::cope) continue;
        ModelShape shape;
        shape.vocabulary = 7;
        shape.width = 16;
        shape.heads = 2;
        shape.hidden = 24;
        shape.longest = 9;
        shape.vectors = 4;
        shape.pe = pe;
        shape.form = form;
        shape.post_norm = post_norm;
        const double error = check(shape);
        const bool bad = !(error < 0.01);
        failures += bad;
        std::printf("%-16s %s%s  %.5f%s\n", std::string(name).c_str(), post_norm ? "post" : "pre ",
                    form == heed::CopeForm::b ? " form b" : "       ", error,
                    bad ? "  TOO LARGE" : "");
      }
    }
  }
  return failures == 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
//
// Temperatures fitted to longer sequences: one factor per head, everything else frozen (Wang et
// al., arXiv 2404.12224, section 4). First the best uniform factor from a grid, then AdamW on all
// of them with linear warm-up and cosine decay; after each step c = max(c, 1), a projection.
//
//   auto fit = fit_head_scales(count, [&](List<float> c, float* gradient) -> double { ... });
//   attend(q, k, v, causal, HeadScale{fit.scales});
//
// count: heads of all layers together, 704 in the paper. What it reached there (TinyLlama without
// positions, trained at 2048, perplexity on PG19): 15.3 at 4096 fitted for 4k, 21.1 at 8192 fitted
// for 8k, 30.4 at 16384 fitted for 18k; unfitted 327, > 1000 and > 1000.

#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/view.hpp"

namespace heed::inline HEED_ABI {

// One report: of a factor of the grid (step counts them), or of a step of the optimiser.
struct FitProgress {
  bool grid = false;
  Index step = 0, steps = 0;     // the first is 1
  double loss = 0;               // at `scales`, before the step
  double rate = 0;               // learning rate of the step
  List<float> scales{};          // [count], after the step
};

// The defaults are the paper's where it gives a number.
struct FitOptions {
  // Uniform factors that are tried; empty: start at 1. The paper's grid has a step of 0.01 and was
  // read off per position; its best factors are about 1 + 0.4 ln(length / trained length), so 1.28,
  // 1.55 and 1.83 at 2, 4 and 8 times the length. It started from 1.6 for 8k and 1.7 for 18k.
  std::vector<float> grid{1.0f, 1.1f, 1.2f, 1.3f, 1.4f, 1.5f, 1.6f, 1.7f, 1.8f, 1.9f, 2.0f};
  Index steps = 200;             // of 8 sequences each
  Index warm_up = 20;            // linear
  double rate = 0.1;             // the paper ran 0.05 and 0.1
  double last_rate = 0.1;        // share of `rate` at the end of the cosine
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;
  double clip = 1;               // largest norm of the gradient, as the authors' code has; 0: none
  // The focus constraint. Without it perplexity was lower (25.9 for 30.4 at 16k) and retrieval much
  // worse (53 for 81 % of passkeys); started from 1 in place of the grid's best: 31.4 and 26 %.
  float least = 1;
  std::function<void(const FitProgress&)> progress{};
};

struct HeadScaleFit {
  std::vector<float> scales;         // [count]; the paper's lie between about 1 and 3
  float uniform = 1;                 // the best of the grid
  std::vector<double> grid_losses;   // of each factor of the grid
  std::vector<double> losses;        // of each step, before it
};

namespace detail {

// Learning rate of step t = 0 ... steps - 1.
inline double fit_rate(const FitOptions& o, Index t) {
  if (t < o.warm_up) return o.rate * double(t + 1) / double(o.warm_up);
  const double left = double(std::max<Index>(o.steps - o.warm_up, 1));
  const double cosine = std::cos(3.14159265358979323846 * double(t - o.warm_up) / left);
  return o.rate * (o.last_rate + (1 - o.last_rate) * (1 + cosine) / 2);
}

inline void check_fit(Index count, const FitOptions& o) {
  const char* const name = "fit_head_scales";
  using contract::text;
  if (count < 1) contract::refuse(name, "count is " + text(count), "at least 1 head");
  if (o.steps < 0 || o.warm_up < 0) {
    contract::refuse(name, "steps is " + text(o.steps) + " and warm_up " + text(o.warm_up),
                     "numbers of at least 0");
  }
  if (!(std::isfinite(o.rate) && o.rate > 0)) {
    contract::refuse(name, "rate is " + text(o.rate), "a finite number above 0");
  }
  for (const float c : o.grid) {
    if (!(std::isfinite(c) && c > 0)) {
      contract::refuse(name, "the grid has " + text(double{c}), "finite numbers above 0");
    }
  }
}

inline void check_fit_loss(double loss, const std::string& where) {
  if (std::isfinite(loss)) return;
  contract::refuse("fit_head_scales", "the loss is " + contract::text(loss) + " " + where,
                   "a finite one");
}

}  // namespace detail

// loss(scales, gradient) -> double: the loss with these factors, [count], on the next batch. Where
// gradient is not nullptr it writes d loss / d scales there, [count]: what attend_backward's
// grad.of<HeadScale>() gives, layer after layer. On the grid all factors are equal and no gradient
// is asked for; there the loss should be of the same batch each time. Throws
// std::invalid_argument for wrong options and for a loss or gradient that is not finite.
template <class Loss>
HeadScaleFit fit_head_scales(Index count, Loss&& loss, const FitOptions& options = {}) {
  detail::check_fit(count, options);
  const auto size = static_cast<std::size_t>(count);
  HeadScaleFit fit;
  FitProgress report;
  const auto tell = [&](bool grid, Index step, Index steps, double found, double rate) {
    if (!options.progress) return;
    report = {grid, step, steps, found, rate, List<float>(fit.scales)};
    options.progress(report);
  };

  fit.uniform = options.least > 1 ? options.least : 1;
  double best = INFINITY;
  for (std::size_t n = 0; n < options.grid.size(); ++n) {
    const float c = options.grid[n];
    fit.scales.assign(size, c);
    const double found = static_cast<double>(loss(List<float>(fit.scales), nullptr));
    detail::check_fit_loss(found, "for the uniform factor " + contract::text(double{c}));
    fit.grid_losses.push_back(found);
    if (found < best && c >= options.least) {
      best = found;
      fit.uniform = c;
    }
    tell(true, Index(n + 1), Index(options.grid.size()), found, 0);
  }
  fit.scales.assign(size, fit.uniform);

  std::vector<float> gradient(size);
  std::vector<double> first(size), second(size);   // moments
  double power1 = 1, power2 = 1;
  for (Index t = 0; t < options.steps; ++t) {
    std::fill(gradient.begin(), gradient.end(), 0.0f);
    const double found = static_cast<double>(loss(List<float>(fit.scales), gradient.data()));
    const std::string where = "in step " + contract::text(t + 1);
    detail::check_fit_loss(found, where);
    double norm = 0;
    for (const float g : gradient) norm += double{g} * double{g};
    norm = std::sqrt(norm);
    if (!std::isfinite(norm)) {
      contract::refuse("fit_head_scales", "the gradient is not finite " + where, "a finite one");
    }
    const double shrink = options.clip > 0 && norm > options.clip ? options.clip / norm : 1;
    const double rate = detail::fit_rate(options, t);
    power1 *= options.beta1;
    power2 *= options.beta2;
    for (std::size_t i = 0; i < size; ++i) {
      const double g = shrink * double{gradient[i]};
      first[i] = options.beta1 * first[i] + (1 - options.beta1) * g;
      second[i] = options.beta2 * second[i] + (1 - options.beta2) * g * g;
      const double step = first[i] / (1 - power1) /
                          (std::sqrt(second[i] / (1 - power2)) + options.epsilon);
      const double c = double{fit.scales[i]};
      const double next = c - rate * (step + options.weight_decay * c);
      fit.scales[i] = std::max(static_cast<float>(next), options.least);
    }
    fit.losses.push_back(found);
    tell(false, t + 1, options.steps, found, rate);
  }
  return fit;
}

}  // namespace heed::inline HEED_ABI

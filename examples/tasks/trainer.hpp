// SPDX-License-Identifier: Apache-2.0
//
// Trains one model and tests it. A batch is cut into a fixed number of parts, which run side by
// side on an Eigen::ThreadPoolDevice; their gradients are added in order, so a result depends on
// the seed and not on the number of threads. A run can be killed and resumed: weights, the
// optimiser's means and the step are kept in one file, and the data of a step is drawn from its
// number.

#pragma once

#ifndef EIGEN_USE_THREADS
#define EIGEN_USE_THREADS   // Eigen's word for ThreadPoolDevice
#endif
#include <unsupported/Eigen/CXX11/Tensor>

#include <chrono>
#include <filesystem>

#include "problem.hpp"

namespace tasks {

using Device = Eigen::ThreadPoolDevice;

struct RunOptions {
  std::string keep;          // folder for the state; empty: none is kept
  double keep_every = 60;    // seconds
  bool quiet = false;
  Index run = 0, runs = 1;   // for the time left
};

class Trainer {
 public:
  Trainer(const Plan& plan, Pe pe, std::uint64_t seed, const Device& device, RunOptions options);
  Trainer(const Trainer&) = delete;

  void train();   // up to plan.schedule.steps, from a kept state if there is one
  Score test(const Set& set);

  const Model& model() const { return model_; }
  const Plan& plan() const { return plan_; }
  std::uint64_t seed() const { return seed_; }
  Vector& weights() { return weights_; }
  const Device& device() const { return device_; }
  const std::vector<float>& losses() const { return losses_; }   // mean loss of each step
  double seconds() const { return seconds_; }   // of all threads' processors, all sittings
  double mean_loss(bool at_end) const;                           // of the first or last twentieth

  // Mean loss of a batch; with a gradient: that of the mean loss, written.
  Score run(const Batch& batch, Vector* gradient, std::uint64_t step = 0);

 private:
  static constexpr Index kParts = 4;

  Batch training_batch(Index step);
  std::filesystem::path file() const;
  std::string fingerprint() const;
  void keep() const;
  void resume();
  void report(Index step, double started) const;

  const Plan plan_;
  const std::uint64_t seed_;
  const Device& device_;
  const RunOptions options_;
  const Model model_;
  AdamW optimiser_;
  Vector weights_;
  std::vector<Pass> passes_;
  std::vector<Vector> gradients_;
  std::vector<float> losses_;
  std::vector<std::uint32_t> order_;   // of the current epoch, where training data is finite
  Index epoch_ = -1, step_ = 0;
  double seconds_ = 0;
};

double now();        // seconds
double processor();  // seconds that this process has worked, all threads together

}  // namespace tasks

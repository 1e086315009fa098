// SPDX-License-Identifier: Apache-2.0
//
// A result depends on the seed alone: the same weights, bit for bit, with one thread and with
// three, and after a run that broke off in the middle and was resumed from its file. A file that
// belongs to another run is refused.

#include <cstdio>
#include <stdexcept>

#include "trainer.hpp"

namespace {

using namespace tasks;

struct Broken : std::runtime_error {
  Broken() : std::runtime_error("broken off") {}
};

// `draws`: sequences after which it breaks off.
Plan plan_of(Index steps, Index* draws = nullptr) {
  Plan plan = counting(Size::tiny, 2);
  plan.shape.width = 16;
  plan.shape.heads = 2;
  plan.shape.hidden = 32;
  plan.shape.dropout = 0.1f;
  plan.schedule.steps = steps;
  plan.training.sequences = 50;   // a finite set, so that epochs are shuffled
  plan.batch = 6;
  const auto draw = plan.training.draw;
  plan.training.draw = [=](Random& random) {
    if (draws != nullptr && (*draws)-- == 0) throw Broken();
    return draw(random);
  };
  return plan;
}

class Runs {
 public:
  explicit Runs(std::string folder) : folder_(std::move(folder)) {
    std::filesystem::remove_all(folder_);
  }
  ~Runs() { std::filesystem::remove_all(folder_); }

  Vector weights(const Plan& plan, int threads, bool kept) const {
    Eigen::ThreadPool pool(threads);
    const Device device(&pool, threads);
    RunOptions options;
    options.quiet = true;
    options.keep = kept ? folder_ : "";
    options.keep_every = 0;   // after every step
    Trainer trainer(plan, Pe::cope, 5, device, options);
    trainer.train();
    return trainer.weights();
  }

 private:
  std::string folder_;
};

int failures = 0;
void expect(bool good, const char* what) {
  std::printf("%s %s\n", good ? "ok  " : "FAIL", what);
  failures += !good;
}

}  // namespace

int main(int argc, char** argv) {
  const Runs runs(argc > 1 ? argv[1] : "trainer_test_state");
  const Vector whole = runs.weights(plan_of(30), 1, false);
  expect(runs.weights(plan_of(30), 3, false) == whole, "three threads give the bits of one");

  Index draws = 17 * 6 + 2;   // within step 17
  bool broken = false;
  try {
    runs.weights(plan_of(30, &draws), 2, true);
  } catch (const Broken&) {
    broken = true;
  }
  expect(broken, "the run broke off");
  expect(runs.weights(plan_of(30), 2, true) == whole, "resumed, it ends with the same bits");

  bool refused = false;
  try {
    runs.weights(plan_of(31), 2, true);
  } catch (const std::runtime_error&) {
    refused = true;
  }
  expect(refused, "the state of another run is refused");
  return failures == 0 ? 0 : 1;
}

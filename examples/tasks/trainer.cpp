// SPDX-License-Identifier: Apache-2.0
//
// Steps, tests, and the file that a run is resumed from.

#include "trainer.hpp"

#include <cstdio>
#include <ctime>
#include <fstream>
#include <numeric>
#include <sstream>

namespace tasks {

namespace {

ModelShape with_encoding(ModelShape shape, Pe pe) {
  shape.pe = pe;
  return shape;
}

template <class T>
void write(std::ostream& out, const T* data, Index count) {
  out.write(reinterpret_cast<const char*>(data), count * Index(sizeof(T)));
}
template <class T>
void read(std::istream& in, T* data, Index count) {
  in.read(reinterpret_cast<char*>(data), count * Index(sizeof(T)));
}

std::string duration(double seconds) {
  char text[32];
  const int s = static_cast<int>(seconds + 0.5);
  if (s < 100) {
    std::snprintf(text, sizeof text, "%d s", s);
  } else {
    std::snprintf(text, sizeof text, "%d:%02d min", s / 60, s % 60);
  }
  return text;
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Trainer::Trainer(const Plan& plan, Pe pe, std::uint64_t seed, const Device& device,
                 RunOptions options)
    : plan_(plan),
      seed_(seed),
      device_(device),
      options_(std::move(options)),
      model_(with_encoding(plan.shape, pe)),
      optimiser_(model_.layout()),
      weights_(model_.initial_weights(seed)),
      passes_(std::size_t(kParts), Pass(model_)),
      gradients_(std::size_t(kParts)) {}

Score Trainer::run(const Batch& batch, Vector* gradient, std::uint64_t step) {
  std::array<Score, kParts> scores;
  Index targets = 0;
  for (const int target : batch.targets) targets += target >= 0;
  const auto scale = 1 / static_cast<float>(std::max<Index>(targets, 1));
  heed::run(device_, kParts, [&](Index part) {
    const Index first = batch.count * part / kParts, end = batch.count * (part + 1) / kParts;
    const auto i = std::size_t(part);
    if (gradient != nullptr) gradients_[i].setZero(weights_.size());
    if (first == end) return;
    Random dropout(seed_, Stream::dropout, step, std::uint64_t(part));
    scores[i] = passes_[i].forward(weights_, batch, first, end - first,
                                   gradient == nullptr ? nullptr : &dropout);
    if (gradient != nullptr) passes_[i].backward(weights_, scale, gradients_[i]);
  });
  for (std::size_t i = 1; i < scores.size(); ++i) scores[0] += scores[i];
  if (gradient != nullptr) {
    *gradient = gradients_[0];
    for (std::size_t i = 1; i < gradients_.size(); ++i) *gradient += gradients_[i];
  }
  return scores[0];
}

Batch Trainer::training_batch(Index step) {
  std::vector<Sample> samples;
  const Index different = plan_.training.sequences;
  for (Index i = step * plan_.batch; i < (step + 1) * plan_.batch; ++i) {
    auto number = std::uint64_t(i);
    if (different > 0) {   // a shuffled epoch after the other
      if (i / different != epoch_) {
        epoch_ = i / different;
        order_.resize(std::size_t(different));
        std::iota(order_.begin(), order_.end(), 0u);
        Random random(seed_, Stream::order, std::uint64_t(epoch_));
        for (Index j = different - 1; j > 0; --j) {
          std::swap(order_[std::size_t(j)], order_[std::size_t(random.below(int(j + 1)))]);
        }
      }
      number = order_[std::size_t(i % different)];
    }
    Random random(seed_, Stream::training, number);
    samples.push_back(plan_.training.draw(random));
  }
  return make_batch(samples);
}

void Trainer::train() {
  resume();
  const Index steps = plan_.schedule.steps, resumed = step_;
  const double before = seconds_ - processor(), started = now();
  double shown = started, kept = started;
  Vector gradient;
  for (; step_ < steps; ++step_) {
    const Score score = run(training_batch(step_), &gradient, std::uint64_t(step_));
    optimiser_.step(plan_.schedule, model_.layout(), step_, gradient, weights_);
    losses_.push_back(static_cast<float>(score.mean_loss()));
    if (!std::isfinite(losses_.back())) throw std::runtime_error("the loss is no number any more");
    const double time = now();
    seconds_ = before + processor();
    if (time - kept > options_.keep_every && !options_.keep.empty()) {
      ++step_;
      keep();
      --step_;
      kept = time;
    }
    if (time - shown > 2) {
      report(resumed, started);
      shown = time;
    }
  }
  if (!options_.keep.empty() && resumed < steps) keep();
  if (!options_.quiet) std::fprintf(stderr, "\r%79s\r", "");
}

void Trainer::report(Index resumed, double started) const {
  if (options_.quiet) return;
  const std::size_t last = std::min<std::size_t>(20, losses_.size());
  const float loss = std::accumulate(losses_.end() - std::ptrdiff_t(last), losses_.end(), 0.0f) /
                     static_cast<float>(last);
  const double per_step = (now() - started) / static_cast<double>(step_ + 1 - resumed);
  const auto steps = static_cast<double>(plan_.schedule.steps);
  const double left = per_step * (steps - static_cast<double>(step_));
  const double rest = per_step * steps * static_cast<double>(options_.runs - options_.run - 1);
  char line[160];
  std::snprintf(line, sizeof line, "run %ld/%ld %s %s seed %lu: step %ld/%ld, loss %.4f, %s left",
                long(options_.run + 1), long(options_.runs), plan_.problem.c_str(),
                name_of(model_.shape().pe).c_str(), static_cast<unsigned long>(seed_),
                long(step_ + 1), long(plan_.schedule.steps), double{loss},
                duration(left + rest).c_str());
  std::fprintf(stderr, "\r%-79s", line);
}

double Trainer::mean_loss(bool at_end) const {
  const auto n = std::max<std::size_t>(1, losses_.size() / 20);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += double{losses_.at(at_end ? losses_.size() - 1 - i : i)};
  }
  return sum / static_cast<double>(n);
}

Score Trainer::test(const Set& set) {
  constexpr Index kAtOnce = 32;
  Score total;
  for (Index first = 0; first < set.sequences; first += kAtOnce) {
    std::vector<Sample> samples;
    for (Index i = first; i < std::min(set.sequences, first + kAtOnce); ++i) {
      // The same for every encoding and seed.
      std::uint64_t part = 0;
      for (const char c : set.name) part = 31 * part + std::uint64_t(c);
      Random random(0, Stream::test, std::uint64_t(i), part);
      samples.push_back(set.draw(random));
    }
    total += run(make_batch(samples), nullptr);
  }
  return total;
}

// ------------------------------------------------------------------------------- the kept state
std::filesystem::path Trainer::file() const {
  const std::string seed = std::to_string(seed_);
  return std::filesystem::path(options_.keep) /
         (plan_.problem + "-" + name_of(model_.shape().pe) + "-" + seed + ".state");
}

// What must be the same for a state to be taken up.
std::string Trainer::fingerprint() const {
  std::ostringstream out;
  const ModelShape& s = model_.shape();
  const Schedule& t = plan_.schedule;
  out << "heed-tasks 1|" << plan_.problem << '|' << plan_.summary << '|' << name_of(s.pe) << '|'
      << seed_ << '|' << s.vocabulary << ' ' << s.layers << ' ' << s.width << ' ' << s.heads << ' '
      << s.hidden << ' ' << s.longest << ' ' << s.vectors << ' ' << int(s.form) << ' '
      << s.post_norm << ' ' << s.dropout << '|' << t.peak << ' ' << t.warm_up << ' ' << t.steps
      << ' ' << t.cosine << ' ' << t.decay << ' ' << t.beta2 << ' ' << t.clip << '|' << plan_.batch;
  return out.str();
}

void Trainer::keep() const {
  std::filesystem::create_directories(options_.keep);
  const auto target = file();
  auto draft = target;
  draft += ".new";
  {
    std::ofstream out(draft, std::ios::binary);
    out << fingerprint() << '\n' << step_ << ' ' << losses_.size() << ' ' << seconds_ << '\n';
    for (const Vector* v : {&weights_, &optimiser_.first, &optimiser_.second}) {
      write(out, v->data(), v->size());
    }
    write(out, losses_.data(), Index(losses_.size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + draft.string());
  }
  std::filesystem::rename(draft, target);   // a kill leaves the old state or the new one
}

void Trainer::resume() {
  if (options_.keep.empty()) return;
  std::ifstream in(file(), std::ios::binary);
  if (!in) return;
  std::string found;
  std::getline(in, found);
  if (found != fingerprint()) {
    throw std::runtime_error(file().string() + " is the state of another run; move it away");
  }
  std::size_t losses = 0;
  Index step = 0;
  double seconds = 0;
  in >> step >> losses >> seconds;
  in.get();
  if (!in || step < 0 || step > plan_.schedule.steps || losses != std::size_t(step)) {
    throw std::runtime_error(file().string() + " is damaged");
  }
  losses_.resize(losses);
  for (Vector* v : {&weights_, &optimiser_.first, &optimiser_.second}) {
    read(in, v->data(), v->size());
  }
  read(in, losses_.data(), Index(losses));
  if (!in) throw std::runtime_error(file().string() + " is damaged");
  step_ = step;
  seconds_ = seconds;
}

}  // namespace tasks

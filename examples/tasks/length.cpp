// SPDX-License-Identifier: Apache-2.0
//
// Training, evaluation at longer contexts, and the fit of NoPE's scales.

#include "length.hpp"

#include <heed/fit.hpp>

#include <cstdio>
#include <map>
#include <memory>

#include "length_report.hpp"
#include "text.hpp"

namespace tasks {

namespace {

struct Sizes {
  Index length = 256, longest = 2048, windows = 32;
  Index scored = 256;   // the last tokens of each window count, whatever its length
};

class Length {
 public:
  Length(const LengthOptions& options, const Device& device)
      : o_(options), device_(device), text_(std::make_shared<Text>(read_text(options.text))) {
    if (o_.size == Size::tiny) s_ = {64, 512, 16, 64};
    if (o_.size == Size::paper) s_ = {1024, 4096, 32, 256};
    if (text_->size() - text_->training_end < 2 * s_.longest) {
      throw std::runtime_error(o_.text + " has " + std::to_string(text_->size()) +
                               " bytes; its last tenth must hold " +
                               std::to_string(2 * s_.longest));
    }
    plan_ = make_plan();
    for (Index n = s_.length; n <= s_.longest; n *= 2) lengths_.push_back(n);
  }

  void run() {
    const ModelShape& m = plan_.shape;
    std::printf("%s: %ld bytes, %ld kinds; the last tenth is for testing\n%ld layers, width %ld, "
                "%ld heads; %ld steps of %ld x %ld bytes, rate %g, seed %lu\n"
                "perplexity per byte and entropy of the last %ld bytes of %ld windows\n\n",
                o_.text.c_str(), long(text_->size()), long(text_->vocabulary), long(m.layers),
                long(m.width), long(m.heads), long(plan_.schedule.steps), long(plan_.batch),
                long(s_.length), plan_.schedule.peak, static_cast<unsigned long>(o_.seed),
                long(s_.scored), long(s_.windows));
    RunOptions run = o_.run;
    run.runs = Index(o_.encodings.size());
    for (const Pe pe : o_.encodings) {
      // Within the training length the two are the same model: trained once, as in the paper.
      const Pe trained = pe == Pe::relative_capped ? Pe::relative : pe;
      auto& trainer = trainers_[trained];
      if (!trainer) {
        Plan plan = plan_;
        // Gates near one half count half the distance: with as many vectors as distances, longer
        // contexts would reach vectors that training never did. The paper has 64 for 1024.
        if (trained == Pe::cope) plan.shape.vectors = std::max<Index>(16, s_.length / 4);
        trainer = std::make_unique<Trainer>(plan, trained, o_.seed, device_, run);
        trainer->train();
      }
      ++run.run;
      measure(name_of(pe), pe, *trainer);
      if (pe == Pe::nope) fit(*trainer);
    }
    std::printf("%s", as_text(lengths_, lines_).c_str());
    if (!o_.csv.empty()) write_file(o_.csv, as_csv(lengths_, lines_, o_.seed));
    if (!o_.svg.empty()) write_file(o_.svg, as_svg(lengths_, lines_, s_.length));
  }

 private:
  Plan make_plan() const {
    Plan plan;
    plan.problem = "length";
    plan.summary = o_.text + ' ' + std::to_string(text_->size());
    const auto text = text_;
    const Index n = s_.length;
    plan.training = {"training", 0, [text, n](Random& random) {
                       return text->window(random.below(int(text->training_end - n - 1)), n);
                     }};
    ModelShape& shape = plan.shape;
    shape.vocabulary = text_->vocabulary;
    shape.layers = o_.size == Size::tiny ? 2 : o_.size == Size::small ? 3 : 6;
    shape.width = o_.size == Size::tiny ? 32 : o_.size == Size::small ? 64 : 256;
    shape.heads = o_.size == Size::tiny ? 2 : o_.size == Size::small ? 4 : 8;
    shape.hidden = 4 * shape.width;
    shape.longest = s_.length;
    shape.vectors = s_.length;
    plan.schedule.steps = o_.size == Size::tiny ? 300 : o_.size == Size::small ? 1500 : 20'000;
    if (o_.steps > 0) plan.schedule.steps = o_.steps;
    plan.schedule.peak = o_.size == Size::paper ? 6e-4 : 2e-3;
    plan.batch = 16;
    return plan;
  }

  // Windows that end at the same places for every length.
  Reading read(const Model& model, const Vector& weights, Index n) const {
    const auto windows = std::size_t(s_.windows);
    std::vector<Score> scores(windows);
    std::vector<double> entropies(windows);
    const ModelShape& shape = model.shape();
    heed::run(device_, s_.windows, [&](Index w) {
      const Index begin = text_->training_end + s_.longest, room = text_->size() - 2 - begin;
      const Index end = begin + room * w / std::max<Index>(1, s_.windows - 1);
      Batch batch = make_batch({text_->window(end - n, n)});
      std::fill_n(batch.targets.begin(), n - s_.scored, -1);
      Pass pass(model);
      scores[std::size_t(w)] = pass.forward(weights, batch, 0, 1);
      std::vector<float> entropy(std::size_t(shape.heads * n));
      double sum = 0;
      for (Index layer = 0; layer < shape.layers; ++layer) {
        pass.look(weights, layer, {.entropy = {entropy.data(), {1, shape.heads, n}}});
        for (Index h = 0; h < shape.heads; ++h) {
          for (Index i = n - s_.scored; i < n; ++i) sum += double{entropy[std::size_t(h * n + i)]};
        }
      }
      entropies[std::size_t(w)] =
          sum / static_cast<double>(shape.layers * shape.heads * s_.scored) / std::log(2.0);
    });
    Reading reading;
    Score total;
    for (std::size_t w = 0; w < windows; ++w) {
      total += scores[w];
      reading.entropy += entropies[w] / static_cast<double>(windows);
    }
    reading.perplexity = std::exp(total.mean_loss());
    return reading;
  }

  void measure(const std::string& name, Pe pe, Trainer& trainer) {
    ModelShape shape = trainer.model().shape();
    shape.pe = pe;
    const Model model(shape);
    Line line{name, pe, {}};
    for (const Index n : lengths_) {
      const bool possible = pe != Pe::absolute || n <= shape.longest;
      line.readings.push_back(possible ? read(model, trainer.weights(), n) : Reading{});
    }
    lines_.push_back(std::move(line));
    std::printf("%s\n", as_row(lines_.back()).c_str());
    std::fflush(stdout);
  }

  // Reference: one uniform scale from a grid, then a scale per head from there, both on training
  // text of the longer length.
  void fit(Trainer& trainer) {
    const Index n = o_.fit_length > 0 ? o_.fit_length : 4 * s_.length, batch = 4;
    const Slice& slice = *trainer.model().scales();
    Vector& weights = trainer.weights();
    auto scales = weights.segment(slice.offset, slice.size());
    Index step = 0;
    const auto windows = [&](Index number) {
      Random random(o_.seed, Stream::text, std::uint64_t(number));
      std::vector<Sample> samples;
      for (Index i = 0; i < batch; ++i) {
        samples.push_back(text_->window(random.below(int(text_->training_end - n - 1)), n));
      }
      return make_batch(samples);
    };
    Vector gradient;
    // Mean loss with these factors: over the same windows for the whole grid, then a step's own.
    const auto loss = [&](heed::List<float> c, float* d_scales) {
      scales = Eigen::Map<const Vector>(c.data, c.size);
      double sum = 0;
      const Index batches = d_scales == nullptr ? 4 : 1;
      for (Index i = 0; i < batches; ++i) {
        const Index number = d_scales == nullptr ? i : step++;
        sum += trainer.run(windows(number), d_scales ? &gradient : nullptr).mean_loss();
      }
      if (d_scales != nullptr) {
        Eigen::Map<Vector>(d_scales, c.size) = gradient.segment(slice.offset, slice.size());
      }
      return sum / static_cast<double>(batches);
    };
    heed::FitOptions options;
    options.rate = 0.05;
    if (o_.size == Size::tiny) options.steps = 40;
    if (!o_.run.quiet) {
      options.progress = [](const heed::FitProgress& at) {
        std::fprintf(stderr, "\rfit: %s %ld/%ld, loss %.4f   ", at.grid ? "grid" : "step",
                     long(at.step), long(at.steps), at.loss);
      };
    }
    const heed::HeadScaleFit fitted = heed::fit_head_scales(slice.size(), loss, options);
    if (!o_.run.quiet) std::fprintf(stderr, "\r%79s\r", "");

    scales.setConstant(fitted.uniform);
    measure(formatted("nope, c = %.1f", double{fitted.uniform}), Pe::nope, trainer);
    scales = Eigen::Map<const Vector>(fitted.scales.data(), slice.size());
    measure("nope, c per head", Pe::nope, trainer);
    std::printf("  fitted on %ld bytes; c of layer, head:", long(n));
    for (Index i = 0; i < slice.rows; ++i) {
      for (Index h = 0; h < slice.cols; ++h) {
        std::printf(" %.2f", double{scales(i * slice.cols + h)});
      }
      std::printf(i + 1 < slice.rows ? " |" : "\n");
    }
    scales.setOnes();
  }

  const LengthOptions o_;
  const Device& device_;
  std::shared_ptr<const Text> text_;
  Sizes s_;
  Plan plan_;
  std::vector<Index> lengths_;
  std::vector<Line> lines_;
  std::map<Pe, std::unique_ptr<Trainer>> trainers_;
};

}  // namespace

int length(const LengthOptions& options, const Device& device) {
  Length(options, device).run();
  return 0;
}

}  // namespace tasks

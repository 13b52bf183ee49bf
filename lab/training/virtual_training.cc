// SPDX-License-Identifier: Apache-2.0
#include "lab/training/virtual_training.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/assert.h"
#include "host/formats/number_format.h"
#include "lab/training/generated_text.h"

namespace tributary::lab {
namespace {

/// Gradients are clamped to +-kGradientLimit, so that no value overflows the fixed-point sum. This
/// model's stay below 0.2.
constexpr float kGradientLimit = 1.0F;
/// The largest parameter that fits, where parameters travel. This model's stay below 8.
constexpr float kParameterLimit = 64.0F;

Corpus corpus_of(const TrainingConfig& config) {
  const std::array<std::string, 1> texts{generated_text(config.seed, config.text_bytes)};
  Result<Corpus> corpus = Corpus::from_texts(texts);
  TRIB_ASSERT(corpus.has_value());  // Long enough by configuration.
  return std::move(*corpus);
}

}  // namespace

VirtualTraining::Worker::Worker(const TrainingConfig& config)
    : model(config.shape, config.seed),
      adam(config.adam, config.shape.parameter_count()),
      gradients(config.shape.parameter_count()),
      exchanged(config.shape.parameter_count()) {}

VirtualTraining::VirtualTraining(const TrainingConfig& config)
    : config_(config), corpus_(corpus_of(config)) {
  for (uint32_t i = 0; i < config.workers; i++) workers_.emplace_back(config);
  corpus_.fill_validation_batch(config.validation_examples, config.shape.context, validation_);
}

std::span<float> VirtualTraining::tensor(uint32_t worker, uint32_t iteration, bool computed) {
  Worker& w = workers_[worker];
  if (!computed) return w.exchanged;  // Only receives.
  if (config_.averages_parameters) {
    apply_alone(worker, iteration);
    w.exchanged.assign(w.model.parameters().begin(), w.model.parameters().end());
    return w.exchanged;
  }
  compute(worker, iteration);
  if (config_.asynchronous) {
    fill_change(worker, iteration);
  } else {
    w.exchanged = w.gradients;
  }
  return w.exchanged;
}

void VirtualTraining::apply_alone(uint32_t worker, uint32_t iteration) {
  Worker& w = workers_[worker];
  compute(worker, iteration);
  w.adam.update(w.gradients, w.model.parameters());
  w.alone = true;
}

/// Fills the worker's gradients.
void VirtualTraining::compute(uint32_t worker, uint32_t iteration) {
  Worker& w = workers_[worker];
  corpus_.fill_training_batch(config_.seed, worker, iteration, config_.batch, config_.shape.context,
                              batch_);
  w.model.forward_backward(batch_, w.gradients);
  for (float& gradient : w.gradients) {
    gradient = std::clamp(gradient, -kGradientLimit, kGradientLimit);
  }
}

/// Fills `exchanged` with the worker's push. All workers begin with the same parameters, so worker
/// 0 pushes them with its first change, and the others can push changes from the beginning.
void VirtualTraining::fill_change(uint32_t worker, uint32_t iteration) {
  Worker& w = workers_[worker];
  const std::span<float> parameters = w.model.parameters();
  std::vector<float> changed(parameters.begin(), parameters.end());
  w.adam.update(w.gradients, changed);
  const bool is_first = worker == 0 && iteration == 0;
  for (size_t i = 0; i < changed.size(); i++) {
    const float change = (changed[i] - parameters[i]) / static_cast<float>(config_.workers);
    w.exchanged[i] = is_first ? parameters[i] + change : change;
  }
}

void VirtualTraining::reduced(uint32_t worker, uint32_t /*iteration*/,
                              const host::Outcome& outcome) {
  if (outcome.status != host::Status::kOk) {
    failed_++;
    return;
  }
  Worker& w = workers_[worker];
  if (config_.asynchronous || config_.averages_parameters) {
    std::copy(w.exchanged.begin(), w.exchanged.end(), w.model.parameters().begin());
  } else {
    w.adam.update(w.exchanged, w.model.parameters());
  }
  w.alone = false;
  w.applied++;
}

void VirtualTraining::iteration_ended(uint32_t worker, uint32_t iteration, Instant at) {
  if (ended_.size() <= iteration) ended_.resize(iteration + 1);
  if (++ended_[iteration] != config_.workers / 2 + 1) return;
  Worker& w = workers_[worker];
  const bool is_mean = !w.alone || progress_.empty();
  const double accuracy =
      is_mean ? w.model.top_accuracy(validation_, config_.top_count) : progress_.back().accuracy;
  progress_.push_back({.iteration = iteration, .at = at, .accuracy = accuracy});
  if (!config_.target || last_ != UINT32_MAX) return;
  if (time_to_accuracy(progress_, *config_.target) == Instant::never()) return;
  // No worker has ended a later iteration than the foremost one, so all of them reach it.
  last_ = static_cast<uint32_t>(ended_.size()) - 1 + kAfterTarget;
}

host::ReduceOp VirtualTraining::op() const {
  return config_.asynchronous ? host::ReduceOp::kSum : host::ReduceOp::kMean;
}

float VirtualTraining::scale() const {
  if (config_.asynchronous || config_.averages_parameters) {
    return static_cast<float>(host::lane_magnitude_max(config_.workers)) / kParameterLimit;
  }
  // Half of the maximum, so that rounding the scale itself cannot reach the limit.
  return static_cast<float>(host::lane_magnitude_max(config_.workers)) / (2 * kGradientLimit);
}

bool VirtualTraining::parameters_identical() const {
  const auto foremost =
      std::max_element(workers_.begin(), workers_.end(),
                       [](const Worker& a, const Worker& b) { return a.applied < b.applied; });
  const auto same = [&foremost](const Worker& w) {
    const std::span<const float> theirs = w.model.parameters();
    const std::span<const float> first = foremost->model.parameters();
    return w.applied != foremost->applied ||
           std::equal(theirs.begin(), theirs.end(), first.begin(), first.end());
  };
  return std::all_of(workers_.begin(), workers_.end(), same);
}

Instant time_to_accuracy(std::span<const VirtualTraining::Progress> progress, double target) {
  double sum = 0.0;
  for (size_t i = 0; i < progress.size(); i++) {
    sum += progress[i].accuracy;
    if (i >= kSettled) sum -= progress[i - kSettled].accuracy;
    if (i + 1 >= kSettled && sum >= target * kSettled) return progress[i].at;
  }
  return Instant::never();
}

}  // namespace tributary::lab

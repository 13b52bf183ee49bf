// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/train_worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/fnv.h"
#include "host/formats/number_format.h"
#include "host/straggler_pattern.h"

namespace tributary::demo {
namespace {

/// Returns true if none of the result's `elements` holds a contribution of `rank`.
bool lacks_all_of(uint32_t rank, const host::Outcome& outcome, uint64_t elements) {
  uint64_t lacking = 0;
  for (const host::DegradedRange& range : outcome.degraded) {
    if (!host::contains(range.sources, rank)) lacking += range.element_count;
  }
  return lacking == elements;
}

}  // namespace

TrainWorker::TrainWorker(const TrainConfig& config, const lab::Corpus& corpus, SumLedger& ledger)
    : config_(config),
      corpus_(corpus),
      ledger_(ledger),
      model_(config.shape, config.seed),
      adam_(config.adam, config.shape.parameter_count()),
      gradients_(config.shape.parameter_count()),
      reduced_(config.shape.parameter_count()) {
  TRIB_ASSERT(config.scale * kGradientLimit <=
              static_cast<float>(host::lane_magnitude_max(config.world)));
}

void TrainWorker::compute_gradients() {
  if (was_late_) return;
  corpus_.fill_training_batch(config_.seed, config_.rank, iteration_, config_.batch,
                              config_.shape.context, batch_);
  loss_ = model_.forward_backward(batch_, gradients_);
  for (float& gradient : gradients_) {
    gradient = std::clamp(gradient, -kGradientLimit, kGradientLimit);
  }
}

std::span<float> TrainWorker::record_gradients() {
  ledger_.record(config_.rank, iteration_, gradients_, config_.scale);
  reduced_ = gradients_;
  return reduced_;
}

Result<IterationRecord> TrainWorker::apply(const host::Outcome& outcome) {
  if (outcome.status != host::Status::kOk) {
    return failure(fmt::format("rank {} iteration {}: {} ({})", config_.rank, iteration_,
                               outcome.text, host::to_string(outcome.status)));
  }
  sums_ += ledger_.check(iteration_, reduced_, outcome.degraded, config_.scale);
  adam_.update(reduced_, model_.parameters());
  was_late_ = lacks_all_of(config_.rank, outcome, reduced_.size());
  if (was_late_) late_iterations_++;
  const IterationRecord record{.iteration = iteration_,
                               .seconds = 0.0,
                               .loss = loss_,
                               .degraded_blocks = outcome.degraded.size()};
  iteration_++;
  return record;
}

uint64_t TrainWorker::checksum() const {
  return fnv_bytes(kFnvStart, std::as_bytes(model_.parameters()));
}

double TrainWorker::validation_loss(uint32_t examples) {
  corpus_.fill_validation_batch(examples, config_.shape.context, batch_);
  return model_.loss(batch_);
}

Result<void> train(TrainWorker& worker, uint32_t iterations, const TrainHooks& hooks) {
  const auto sleep_at = [&hooks](uint64_t iteration, uint64_t point) {
    const Duration delay = hooks.delay_at(iteration * host::kDelayPoints + point);
    if (delay > Duration()) hooks.sleep(delay);
  };
  const Instant started_at = hooks.now();
  for (uint32_t i = 0; i < iterations; i++) {
    sleep_at(i, 0);
    worker.compute_gradients();
    sleep_at(i, 1);
    const std::span<float> gradients = worker.record_gradients();
    sleep_at(i, 2);
    auto record = worker.apply(hooks.all_reduce(gradients));
    if (!record) return tl::unexpected(record.error());
    record->seconds = in_seconds(hooks.now() - started_at);
    hooks.report(*record);
  }
  return {};
}

}  // namespace tributary::demo

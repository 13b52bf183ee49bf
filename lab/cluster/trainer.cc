// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/trainer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "host/straggler_pattern.h"
#include "lab/cluster/generated_gradients.h"

namespace tributary::lab {
namespace {

using host::Status;

/// Longer than any run (JobRun::limit()), so that a step's end fits into an Instant.
constexpr Duration kLongestStep = seconds(10'000'000);

Duration scaled(Duration length, double factor) {
  if (factor == 1) return length;
  const double ticks = static_cast<double>(length.ticks()) * factor;
  if (ticks >= static_cast<double>(kLongestStep.ticks())) return kLongestStep;
  return Duration::from_ticks(static_cast<int64_t>(ticks));
}

/// The sum has not reached this rank.
bool is_missed(const host::DegradedRange& range) {
  return range.sources == host::SourceSet{} && range.contributors == 0;
}

/// Returns whether a degraded result names its sources. SwitchML only counts them, and a message
/// has no room to name more than kSourcesMax workers.
bool names_sources(const host::DegradedRange& range, uint32_t workers) {
  return range.contributors == 0 && workers <= wire::kSourcesMax;
}

/// Adds the blocks that a worker has computed.
void count_contributions(const host::Outcome& outcome, uint32_t rank, const Scenario& scenario,
                         WorkerResult& account) {
  account.contributions += outcome.blocks * scenario.train;
  for (const host::DegradedRange& range : outcome.degraded) {
    if (!names_sources(range, scenario.workers)) {
      account.contributions_unclear += scenario.train;
    } else if (!host::contains(range.sources, rank)) {
      account.contributions_lost += scenario.train;
    }
  }
}

uint64_t blocks_missed(const host::Outcome& outcome) {
  return static_cast<uint64_t>(
      std::count_if(outcome.degraded.begin(), outcome.degraded.end(), is_missed));
}

}  // namespace

Trainer::Trainer(const Plan& plan, uint32_t rank, WorkerNode& node, EventCore& core)
    : plan_(plan), rank_(rank), node_(node), core_(core) {
  const uint32_t count = bucket_count();
  transfers_.resize(count);
  integers_.resize(count);
  submitted_.resize(count);
  taken_.resize(count);
  node_.set_observer(this);
}

Trainer::~Trainer() { node_.set_observer(nullptr); }

uint32_t Trainer::bucket_count() const {
  const bool adds_one = plan_.exchange != nullptr && !plan_.asynchronous;
  return static_cast<uint32_t>(plan_.workload.buckets.size()) + (adds_one ? 1 : 0);
}

bool Trainer::exchanges() const { return (iteration_ + 1) % plan_.scenario.model.local_steps == 0; }

bool Trainer::has_all() const { return taken_count_ == (exchanges() ? bucket_count() : 0); }

bool Trainer::is_exchange(uint32_t bucket) const {
  return plan_.exchange != nullptr && bucket + 1 == bucket_count();
}

void Trainer::begin() {
  TRIB_ASSERT(phase_ == Phase::kIdle);
  begun_at_ = core_.now();
  ended_at_ = begun_at_;
  worked_before_ = node_.worked();
  if (!plan_.pattern.contributes(rank_)) return end();
  begin_iteration();
}

// --- Computation ---

void Trainer::begin_iteration() {
  phase_ = Phase::kSteps;
  skipping_ = false;
  taken_count_ = 0;
  std::fill(submitted_.begin(), submitted_.end(), false);
  std::fill(taken_.begin(), taken_.end(), false);
  plan_steps();
  step_ = 0;
  step_began_at_ = step_ends_at_ = core_.now();
  run_steps();
}

void Trainer::plan_steps() {
  const uint64_t point = uint64_t{iteration_} * host::kDelayPoints;
  const double factor = plan_.pattern.compute_factor(rank_, iteration_);
  const auto delay = [&](uint32_t i) { return plan_.pattern.delay_at(rank_, point + i); };
  steps_.clear();
  // With overlap_forward, the previous iteration has done the forward pass of all but the first.
  const bool overlaps = plan_.scenario.model.overlap_forward;
  if (!overlaps || iteration_ == 0) {
    steps_.push_back({StepKind::kSleep, delay(0)});
    steps_.push_back({StepKind::kCompute, scaled(plan_.workload.forward, factor)});
  }
  steps_.push_back({StepKind::kSleep, delay(1)});
  add_backward(factor, delay(2));
  if (overlaps && iteration_ + 1 < plan_.scenario.iterations) add_forward_ahead();
}

/// The forward pass of the next iteration: the layers of the last bucket first.
void Trainer::add_forward_ahead() {
  const uint32_t next = iteration_ + 1;
  const double factor = plan_.pattern.compute_factor(rank_, next);
  const std::vector<Duration> ends = plan_.workload.forward_ends();
  steps_.push_back(
      {StepKind::kSleep, plan_.pattern.delay_at(rank_, uint64_t{next} * host::kDelayPoints)});
  Duration reached;
  for (uint32_t i = bucket_count(); i-- > 0;) {
    // The parameters of a model outside belong to no layer here; all layers need them.
    const Duration end = i < ends.size() ? ends[i] : Duration();
    steps_.push_back({StepKind::kCompute, scaled(end - reached, factor), i, /*ahead=*/true});
    reached = end;
  }
}

/// The backward pass in parts: between buckets, and before and after the delay in its middle.
void Trainer::add_backward(double factor, Duration delay) {
  const Duration middle = plan_.workload.backward / 2;
  Duration reached;
  bool delayed = false;
  const auto compute_until = [&](Duration at) {
    if (!delayed && at >= middle) {
      steps_.push_back({StepKind::kCompute, scaled(middle - reached, factor)});
      steps_.push_back({StepKind::kSleep, delay});
      reached = middle;
      delayed = true;
    }
    steps_.push_back({StepKind::kCompute, scaled(at - reached, factor)});
    reached = at;
  };
  for (uint32_t i = 0; i < plan_.workload.buckets.size() && exchanges(); i++) {
    compute_until(plan_.workload.buckets[i].ready_at);
    steps_.push_back({StepKind::kBucket, Duration(), i});
  }
  compute_until(plan_.workload.backward);
  if (!exchanges()) return steps_.push_back({StepKind::kApplyAlone, Duration()});
  if (bucket_count() > plan_.workload.buckets.size()) {
    steps_.push_back({StepKind::kBucket, Duration(), bucket_count() - 1});
  }
}

void Trainer::run_steps() {
  for (; step_ < steps_.size(); step_++) {
    const Step& step = steps_[step_];
    if (step.kind == StepKind::kBucket) {
      submit(step.bucket);
      if (phase_ == Phase::kDone) return;
      continue;
    }
    if (step.kind == StepKind::kApplyAlone) {
      if (plan_.exchange != nullptr && !skipping_) plan_.exchange->apply_alone(rank_, iteration_);
      continue;
    }
    if (step.length == Duration() && !step.ahead) continue;
    if (step.kind == StepKind::kCompute && skips(step)) continue;
    if (step.ahead && !taken_[step.bucket]) {
      phase_ = Phase::kWaiting;
      return;
    }
    step_began_at_ = core_.now();
    step_paused_ = Duration();
    step_ends_at_ = step_began_at_ + step.length;
    core_.schedule(step_ends_at_, EventPriority::kHost, *this, ++step_number_);
    return;
  }
  phase_ = Phase::kWaiting;
  // A round takes the tensors that have ended before; a tensor without elements has no round.
  if (has_all()) end_iteration();
}

bool Trainer::skips(const Step& step) {
  if (step.ahead) return overtaken();  // The next iteration decides about itself.
  skipping_ = skipping_ || overtaken();
  return skipping_;
}

bool Trainer::overtaken() const {
  if (!plan_.skips) return false;
  const host::Progress progress = node_.protocol().progress();
  return progress.heard > progress.submitted;
}

void Trainer::skip_computation() {
  account_.computed += core_.now() - step_began_at_ - step_paused_;
  if (!steps_[step_].ahead) skipping_ = true;
  step_number_++;
  step_++;
  run_steps();
}

void Trainer::on_event(uint64_t argument) {
  if (argument != step_number_ || phase_ != Phase::kSteps) return;
  if (core_.now() < step_ends_at_) {  // The process has stood still meanwhile.
    core_.schedule(step_ends_at_, EventPriority::kHost, *this, step_number_);
    return;
  }
  const Step& step = steps_[step_];
  (step.kind == StepKind::kSleep ? account_.slept : account_.computed) += step.length;
  step_++;
  run_steps();
}

void Trainer::pause(Duration length) {
  node_.pause(length);
  if (phase_ == Phase::kSteps) {
    step_ends_at_ = step_ends_at_ + length;
    step_paused_ += length;
  }
  if (phase_ == Phase::kSteps || phase_ == Phase::kWaiting) account_.slept += length;
}

// --- Communication ---

void Trainer::submit(uint32_t bucket) {
  host::Transfer& transfer = transfers_[bucket];
  transfer = host::Transfer{};
  transfer.priority = bucket_count() - 1 - bucket;
  submitted_[bucket] = true;
  transfer.receive_only = skipping_;
  if (is_exchange(bucket)) {
    transfer.floats = plan_.exchange->tensor(rank_, iteration_, !skipping_);
    transfer.format = plan_.exchange->format();
    transfer.op = plan_.exchange->op();
    transfer.scale = plan_.exchange->scale();
  } else if (plan_.scenario.payload == Payload::kElided) {
    transfer.elided_elements = plan_.workload.buckets[bucket].elements;
  } else {
    fill(bucket);
    transfer.integers = integers_[bucket];
  }
  node_.submit(transfer);
  if (transfer.done) take_outcome(bucket);
}

void Trainer::fill(uint32_t bucket) {
  std::vector<int32_t>& integers = integers_[bucket];
  integers.resize(plan_.workload.buckets[bucket].elements);
  for (uint64_t i = 0; i < integers.size(); i++) {
    integers[i] = generated_gradient(rank_, iteration_, bucket, i);
  }
}

void Trainer::on_round() {
  if (phase_ != Phase::kSteps && phase_ != Phase::kWaiting) return;
  for (uint32_t i = 0; i < bucket_count(); i++) {
    if (!submitted_[i] || taken_[i] || !transfers_[i].done) continue;
    if (!take_outcome(i)) return;
  }
  const bool computes = phase_ == Phase::kSteps && steps_[step_].kind == StepKind::kCompute;
  if (computes && overtaken()) return skip_computation();
  if (phase_ != Phase::kWaiting) return;
  if (step_ < steps_.size()) {  // The next step may have its sum.
    phase_ = Phase::kSteps;
    return run_steps();
  }
  if (has_all()) end_iteration();
}

/// Whether the training goes on with what has become of the bucket.
bool Trainer::is_usable(uint32_t bucket) const {
  const Status status = transfers_[bucket].outcome.status;
  if (status == Status::kOk) return true;
  if (is_exchange(bucket)) return status == Status::kOverflow || status == Status::kNotFinite;
  // The protocol goes on without the sums that it has missed.
  return status == Status::kDesynchronised &&
         node_.protocol().phase() == host::TensorProtocol::Phase::kRunning &&
         plan_.scenario.mitigation.on_desynchronised == OnDesynchronised::kDrop;
}

bool Trainer::take_outcome(uint32_t bucket) {
  const host::Outcome& outcome = transfers_[bucket].outcome;
  taken_[bucket] = true;
  taken_count_++;
  if (!is_usable(bucket)) {
    dropped_out_ = outcome.status == Status::kDesynchronised &&
                   plan_.scenario.mitigation.on_desynchronised == OnDesynchronised::kDrop;
    if (!dropped_out_) {
      failed_ = fmt::format("worker {}: iteration {}, bucket {}: {}: {}", rank_, iteration_, bucket,
                            to_string(outcome.status), outcome.text);
    }
    end();
    return false;
  }
  const uint32_t train = plan_.scenario.train;
  if (transfers_[bucket].receive_only) {
    account_.blocks_skipped += outcome.blocks * train;
    skipped_.push_back({iteration_, bucket, outcome.blocks});
  } else {
    count_contributions(outcome, rank_, plan_.scenario, account_);
  }
  account_.staleness += outcome.staleness;
  account_.sums_missed += blocks_missed(outcome) * train;
  if (is_exchange(bucket)) {
    plan_.exchange->reduced(rank_, iteration_, outcome);
  } else if (plan_.scenario.payload == Payload::kReal && !plan_.asynchronous) {
    check_sums(bucket);
  }
  return true;
}

/// Compares every element with the sum over exactly the sources that its block names.
void Trainer::check_sums(uint32_t bucket) {
  const std::vector<int32_t>& sums = integers_[bucket];
  const uint32_t workers = plan_.scenario.workers;
  const SumChecker checker(iteration_, bucket, workers);
  uint64_t next = 0;
  uint64_t missed = 0;
  const auto check_whole = [&](uint64_t end) {
    wrong_sums_ += checker.wrong_sums(sums, next, end, all_of(workers));
  };
  for (const host::DegradedRange& range : transfers_[bucket].outcome.degraded) {
    check_whole(range.element_first);
    next = range.element_first + range.element_count;
    if (is_missed(range)) {
      missed += range.element_count;
      continue;
    }
    wrong_sums_ +=
        range.contributors == 0
            ? checker.wrong_sums(sums, range.element_first, next, range.sources)
            : checker.wrong_sums_of_some(sums, range.element_first, next, range.contributors);
  }
  check_whole(sums.size());
  checked_sums_ += sums.size() - missed;
}

// --- Ends ---

void Trainer::end_iteration() {
  ended_at_ = core_.now();
  ends_.push_back(ended_at_);
  account_.iterations++;
  if (skipping_) account_.iterations_skipped++;
  if (plan_.exchange != nullptr) plan_.exchange->iteration_ended(rank_, iteration_, ended_at_);
  const bool is_last = plan_.exchange != nullptr && plan_.exchange->is_last(iteration_);
  if (++iteration_ == plan_.scenario.iterations || is_last) return end();
  begin_iteration();
}

void Trainer::end() {
  phase_ = Phase::kDone;
  ended_at_ = core_.now();
  account_.packet_cpu = node_.worked() - worked_before_;
}

std::string Trainer::doing() const {
  if (!failed_.empty()) return failed_;
  switch (phase_) {
    case Phase::kIdle:
      return "joins the job";
    case Phase::kSteps:
      return fmt::format("computes iteration {}", iteration_);
    case Phase::kWaiting:
      return fmt::format("waits for the sums of iteration {}, {} of {} buckets are there",
                         iteration_, taken_count_, bucket_count());
    case Phase::kDone:
      break;
  }
  return dropped_out_ ? fmt::format("has dropped out in iteration {}", iteration_) : "is done";
}

WorkerResult Trainer::result() const {
  WorkerResult result = account_;
  const uint32_t train = plan_.scenario.train;
  result.waited = ended_at_ - begun_at_ - result.computed - result.slept;
  if (node_.runs()) {
    const host::CommunicatorCounters counters = node_.protocol().counters();
    result.packets_sent = counters.packets_sent * train;
    result.packets_received = node_.taken_packets() * train;
    result.retransmissions = counters.retransmitted * train;
    result.probes = counters.probes * train;
  }
  result.receive_overflows = node_.receive_overflows();
  result.dropped_out = dropped_out_;
  result.finished_at = ended_at_ - begun_at_;
  return result;
}

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/job_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/assert.h"
#include "host/straggler_pattern.h"
#include "lab/inspect/latency_summary.h"

namespace tributary::lab {
namespace {

/// Tells whether late workers leave computation out. SwitchML's cannot: its protocol has no way to
/// take a sum without a part.
bool skips(const Scenario& scenario, const BackendKind& backend) {
  return scenario.mitigation.catch_up == CatchUp::kSkip && !backend.asynchronous &&
         backend.switchml == nullptr;
}

}  // namespace

uint64_t sent_bytes(const net::Network& network, net::LinkId link) {
  const uint64_t bytes = network.counters(link).bytes;
  return bytes - std::min(bytes, network.queue_bytes(link));
}

Result<std::unique_ptr<JobRun>> JobRun::create(Terms terms, TensorExchange* exchange) {
  const BackendKind& backend = backend_kind(terms.scenario.backend);
  const PatternSet patterns =
      backend.straggles ? terms.scenario.straggler.pattern : Straggling::kNone;
  auto pattern = make_pattern(patterns, terms.scenario, terms.typical_iteration);
  if (!pattern) return tl::unexpected(pattern.error());
  return std::unique_ptr<JobRun>(
      new JobRun(std::move(terms), backend, *std::move(pattern), exchange));
}

JobRun::JobRun(Terms terms, const BackendKind& backend, std::unique_ptr<StragglerPattern> pattern,
               TensorExchange* exchange)
    : terms_(std::move(terms)),
      backend_(backend),
      pattern_(std::move(pattern)),
      workload_(workload_of(terms_.scenario)),
      training_{terms_.scenario,
                workload_,
                *pattern_,
                exchange,
                backend.asynchronous,
                skips(terms_.scenario, backend)} {}

JobRun::~JobRun() = default;

bool JobRun::has_values() const {
  return terms_.scenario.payload == Payload::kReal || training_.exchange != nullptr;
}

tl::unexpected<Error> JobRun::named(const std::string& text) const {
  if (terms_.name.empty()) return failure(text);
  return failure(fmt::format("job '{}': {}", terms_.name, text));
}

// --- Building ---

std::optional<net::BuiltNode> JobRun::make_node(net::Network& network, const net::NodeSpec& spec) {
  if (spec.kind == kWorkerKind) {
    // Ranks follow the order of the nodes, so the next worker is the next rank.
    const size_t rank = workers_.size();
    if (rank == plan_.workers.size() || plan_.workers[rank].name != spec.name) return std::nullopt;
    WorkerNodeConfig config = plan_.workers[rank];
    config.latency = &latency_;
    workers_.push_back(std::make_unique<WorkerNode>(network, config, plan_.worker_seeds.at(rank)));
    return net::BuiltNode{workers_.back()->id(), nullptr, false};
  }
  const std::vector<uint32_t> receivers = pattern_->background_to();
  const size_t next = backgrounds_.size();
  if (spec.kind != kBackgroundKind || next == receivers.size()) return std::nullopt;
  if (spec.name != background_name(plan_.place, next)) return std::nullopt;
  backgrounds_.push_back(std::make_unique<BackgroundFlow>(
      network, BackgroundFlow::Config{.name = spec.name,
                                      .from = spec.address,
                                      .to = plan_.workers.at(receivers[next]).address,
                                      .bits_per_s = plan_.background_bits_per_s.at(next)}));
  return net::BuiltNode{backgrounds_.back()->id(), nullptr, false};
}

void JobRun::make_trainers(EventCore& core) {
  for (uint32_t rank = 0; rank < workers_.size(); rank++) {
    trainers_.push_back(std::make_unique<Trainer>(training_, rank, *workers_[rank], core));
  }
}

// --- Running ---

/// Far beyond any run that makes progress. Assumes that each worker sleeps the maximum at each
/// delay point and computes at its slowest, and that the network carries a hundredth of its slowest
/// cable's rate. Adds a few deadlines.
Duration JobRun::limit() const {
  const Scenario& scenario = terms_.scenario;
  if (scenario.limit != Duration()) return scenario.limit;
  constexpr int64_t kSlowNetwork = 100;
  constexpr int64_t kDeadlines = 4;
  constexpr double kTailFactorMax = 12;  // HeavyTailPattern's.
  const auto patterns = static_cast<double>(kinds_in(scenario.straggler.pattern).size());
  const double tail = 1 + kTailFactorMax * (scenario.straggler.p99_over_p50 - 1);
  const double slow =
      patterns > 1 ? scenario.straggler.factor * tail : std::max(scenario.straggler.factor, tail);
  const double wire_s = static_cast<double>(workload_.elements()) * scenario.train * 32 /
                        static_cast<double>(plan_.slowest_bits_per_s);
  const double iteration_s =
      in_seconds(workload_.forward + workload_.backward) * slow +
      in_seconds(terms_.typical_iteration) * 2 * host::kDelayPoints * patterns +
      wire_s * kSlowNetwork;
  constexpr double kLongestSeconds = 1e7;  // Fits into Duration, and is longer than any use.
  const double total_s =
      std::min(iteration_s * scenario.iterations + in_seconds(scenario.host.deadline) * kDeadlines +
                   in_seconds(scenario.straggler.pause_for + scenario.straggler.pause_at) +
                   in_seconds(pattern_->recorded_total()),
               kLongestSeconds);
  return from_seconds(total_s);
}

bool JobRun::is_due() {
  if (phase_ == Phase::kTraining) {
    while (reached_ < trainers_.size() && trainers_[reached_]->done()) {
      if (!trainers_[reached_]->failed().empty()) return true;
      reached_++;
    }
    return reached_ == trainers_.size();
  }
  if (phase_ != Phase::kJoining) return false;
  while (reached_ < workers_.size() &&
         workers_[reached_]->protocol().phase() != host::TensorProtocol::Phase::kJoining) {
    reached_++;
  }
  return reached_ == workers_.size();
}

Instant JobRun::next_milestone() const {
  switch (phase_) {
    case Phase::kWaiting:
      return Instant() + terms_.start;
    case Phase::kJoining:
      return phase_began_at_ + limit();
    case Phase::kTraining: {
      const Instant last = phase_began_at_ + limit();
      const auto pause = pattern_->pause();
      return pause && !paused_ ? std::min(began_at_ + pause->at, last) : last;
    }
    case Phase::kEnded:
      break;
  }
  return Instant::never();
}

Result<void> JobRun::step(Instant now) {
  const bool at_limit = now >= phase_began_at_ + limit();
  switch (phase_) {
    case Phase::kWaiting:
      if (now < Instant() + terms_.start) return {};
      for (const auto& worker : workers_) worker->start();
      phase_ = Phase::kJoining;
      phase_began_at_ = now;
      return {};
    case Phase::kJoining: {
      const bool all = is_due();
      if (!all && !at_limit) return {};
      if (const auto joined = check_joined(all); !joined) return joined;
      begin_training(now);
      return {};
    }
    case Phase::kTraining: {
      if (is_due()) {
        if (reached_ < trainers_.size()) return named(stuck_error().text);
        phase_ = Phase::kEnded;
        ended_at_ = now;
        return {};
      }
      const auto pause = pattern_->pause();
      if (pause && !paused_ && now >= began_at_ + pause->at) {
        paused_ = true;
        for (const uint32_t worker : pause->workers) trainers_[worker]->pause(pause->length);
        return {};
      }
      if (at_limit) return named(stuck_error().text);
      return {};
    }
    case Phase::kEnded:
      break;
  }
  return {};
}

Result<void> JobRun::check_joined(bool all) const {
  for (uint32_t rank = 0; rank < workers_.size(); rank++) {
    const host::TensorProtocol& protocol = workers_[rank]->protocol();
    if (protocol.phase() == host::TensorProtocol::Phase::kRunning) continue;
    const std::string why = all ? protocol.status_text() : "still joins at the run's limit";
    return named(fmt::format("worker {} could not join the job: {}", rank, why));
  }
  return {};
}

void JobRun::begin_training(Instant now) {
  phase_ = Phase::kTraining;
  phase_began_at_ = now;
  began_at_ = now;
  reached_ = 0;
  for (const auto& background : backgrounds_) background->start();
  for (const auto& trainer : trainers_) trainer->begin();
}

Error JobRun::stuck_error() const {
  const Trainer* behind = nullptr;
  uint32_t behind_rank = 0;
  // Of two workers in the same iteration, the one that does not wait holds up the other.
  const auto is_further_behind = [&](const Trainer& trainer) {
    if (behind == nullptr) return true;
    if (trainer.ends().size() != behind->ends().size()) {
      return trainer.ends().size() < behind->ends().size();
    }
    return behind->waits() && !trainer.waits();
  };
  for (uint32_t rank = 0; rank < trainers_.size(); rank++) {
    const Trainer& trainer = *trainers_[rank];
    if (!trainer.failed().empty()) return {trainer.failed()};
    if (trainer.done()) continue;
    if (is_further_behind(trainer)) {
      behind = &trainer;
      behind_rank = rank;
    }
  }
  TRIB_ASSERT(behind != nullptr);
  return {fmt::format(
      "worker {} is not done after {:.3f} s of virtual time: it {}; limit_s sets another limit",
      behind_rank, in_seconds(limit()), behind->doing())};
}

// --- Collecting ---

RunResult JobRun::collect(const net::Network& network, Instant now) const {
  RunResult result;
  result.total = (phase_ == Phase::kEnded ? ended_at_ : now) - began_at_;
  result.typical_iteration = terms_.typical_iteration;
  collect_iterations(result);
  for (uint32_t rank = 0; rank < trainers_.size(); rank++) {
    result.workers.push_back(trainers_[rank]->result());
    note_traffic(network, rank, result.workers.back());
    result.wrong_sums += trainers_[rank]->wrong_sums();
    result.checked_sums += trainers_[rank]->checked_sums();
    if (trainers_[rank]->dropped_out()) continue;
    const host::CommunicatorCounters& counters = workers_[rank]->protocol().counters();
    result.blocks += counters.blocks * terms_.scenario.train;
    result.degraded_blocks += counters.degraded_blocks * terms_.scenario.train;
  }
  if (result.dropouts() > 0) result.total = time_of_the_others();
  result.skipped_blocks = skipped_blocks();
  result.block_latency = summarise(latency_.summary());
  return result;
}

/// Returns the time of the slowest worker that has not dropped out.
Duration JobRun::time_of_the_others() const {
  Instant last = began_at_;
  for (const auto& trainer : trainers_) {
    if (!trainer->dropped_out() && !trainer->ends().empty())
      last = std::max(last, trainer->ends().back());
  }
  return last - began_at_;
}

std::vector<std::string> JobRun::losses() const {
  std::vector<std::string> lines;
  const std::string of = terms_.name.empty() ? "" : fmt::format("job '{}': ", terms_.name);
  for (uint32_t rank = 0; rank < workers_.size(); rank++) {
    const uint64_t lost = workers_[rank]->receive_overflows();
    if (lost == 0) continue;
    lines.push_back(
        fmt::format("{}worker {} dropped {} packets: receive buffer full", of, rank, lost));
  }
  return lines;
}

double JobRun::packets_per_real_packet() const {
  const auto packets_of = [](const Scenario& scenario) {
    uint64_t packets = 0;
    for (const Bucket& bucket : workload_of(scenario).buckets) {
      const uint64_t trains = (bucket.elements + scenario.gradients - 1) / scenario.gradients;
      packets += trains * scenario.train;
    }
    return static_cast<double>(packets);
  };
  Scenario real = terms_.scenario;
  real.train = 1;
  return packets_of(terms_.scenario) / packets_of(real);
}

uint64_t JobRun::skipped_blocks() const {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> buckets;  // Blocks by iteration and bucket.
  for (const auto& trainer : trainers_) {
    for (const Trainer::SkippedBucket& skipped : trainer->skipped()) {
      buckets[{skipped.iteration, skipped.bucket}] = skipped.blocks;
    }
  }
  uint64_t count = 0;
  for (const auto& [place, blocks] : buckets) {
    const uint32_t iteration = place.first;
    const auto receivers =
        std::count_if(trainers_.begin(), trainers_.end(), [&](const auto& trainer) {
          return trainer->ends().size() > iteration && !trainer->dropped_out();
        });
    count += blocks * terms_.scenario.train * static_cast<uint64_t>(receivers);
  }
  return count;
}

void JobRun::collect_iterations(RunResult& result) const {
  size_t iterations = 0;
  for (const auto& trainer : trainers_) {
    if (!trainer->dropped_out()) iterations = std::max(iterations, trainer->ends().size());
  }
  if (iterations == 0) return;
  std::vector<const std::vector<Instant>*> ends;
  for (const auto& trainer : trainers_) {
    if (trainer->ends().size() == iterations) ends.push_back(&trainer->ends());
  }
  Instant before = began_at_;
  for (size_t i = 0; i < iterations; i++) {
    std::vector<Instant> at;
    for (const auto* of_worker : ends) at.push_back((*of_worker)[i]);
    const auto median = at.begin() + static_cast<ptrdiff_t>((at.size() - 1) / 2);
    std::nth_element(at.begin(), median, at.end());
    result.iterations.push_back(*median - before);
    before = *median;
  }
  result.mean_iteration = (before - began_at_) / static_cast<int64_t>(iterations);
}

/// Records the traffic on the cable of the worker's host.
void JobRun::note_traffic(const net::Network& network, uint32_t rank, WorkerResult& worker) const {
  const auto host = network.find_node(plan_.host_nodes[rank]);
  const auto out = host ? network.link_at(*host, 0) : Result<net::LinkId>(0);
  TRIB_ASSERT(host && out);
  worker.wire_bytes_sent = sent_bytes(network, *out);
  // The two directions of a cable follow each other; the first is the even one (net::Network).
  const net::LinkId in = *out ^ 1U;
  const net::LinkCounters received = network.counters(in);
  const uint64_t bytes = sent_bytes(network, in) + received.duplicated_bytes;
  worker.wire_bytes_received = bytes - std::min(bytes, received.lost_bytes);
}

}  // namespace tributary::lab

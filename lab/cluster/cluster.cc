// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/assert.h"
#include "host/straggler_pattern.h"
#include "lab/inspect/latency_summary.h"
#include "lab/inspect/pfe_report.h"

namespace tributary::lab {
namespace {

/// Tells whether late workers leave computation out. SwitchML's cannot: its protocol has no way to
/// take a sum without a part.
bool skips(const Scenario& scenario, const BackendKind& backend) {
  return scenario.mitigation.catch_up == CatchUp::kSkip && !backend.asynchronous &&
         backend.switchml == nullptr;
}

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::create(const Scenario& scenario,
                                                 Duration typical_iteration,
                                                 TensorExchange* exchange) {
  const BackendKind& backend = backend_kind(scenario.backend);
  const PatternSet patterns = backend.straggles ? scenario.straggler.pattern : Straggling::kNone;
  auto pattern = make_pattern(patterns, scenario, typical_iteration);
  if (!pattern) return tl::unexpected(pattern.error());
  auto plan = plan_cluster(scenario, backend, (*pattern)->background_to());
  if (!plan) return tl::unexpected(plan.error());
  std::unique_ptr<Cluster> cluster(new Cluster(scenario, backend, *std::move(pattern),
                                               *std::move(plan), typical_iteration, exchange));
  if (const auto built = cluster->build(); !built) return tl::unexpected(built.error());
  return cluster;
}

Cluster::Cluster(const Scenario& scenario, const BackendKind& backend,
                 std::unique_ptr<StragglerPattern> pattern, ClusterPlan plan,
                 Duration typical_iteration, TensorExchange* exchange)
    : scenario_(scenario),
      backend_(backend),
      pattern_(std::move(pattern)),
      typical_iteration_(typical_iteration),
      workload_(workload_of(scenario_)),
      plan_(std::move(plan)),
      network_(core_, plan_.network_seed, scenario_.train),
      training_{scenario_,
                workload_,
                *pattern_,
                exchange,
                backend.asynchronous,
                skips(scenario_, backend)} {}

Cluster::~Cluster() = default;

// --- Building ---

Result<void> Cluster::build() {
  auto built = net::build(plan_.topology, network_,
                          [this](const net::NodeSpec& spec) { return make_node(spec); });
  if (!built) return tl::unexpected(built.error());
  built_ = *std::move(built);
  for (uint32_t rank = 0; rank < workers_.size(); rank++) {
    trainers_.push_back(std::make_unique<Trainer>(training_, rank, *workers_[rank], core_));
  }
  if (const auto begun = begin_captures(); !begun) return begun;
  return find_timeline();
}

Result<void> Cluster::begin_captures() {
  for (const Scenario::Capture& wanted : scenario_.captures) {
    const auto link = network_.find_link(wanted.link);
    if (!link) return failure("capture: " + link.error().text);
    auto writer = net::PcapWriter::open(wanted.path);
    if (!writer) return failure("capture: " + writer.error().text);
    captures_.push_back(*std::move(writer));
    captures_.back().attach(network_, *link);
  }
  return {};
}

Result<void> Cluster::find_timeline() {
  const std::string& wanted = scenario_.timeline.link;
  if (wanted.empty()) return {};
  const auto link = network_.find_link(wanted);
  if (!link) return failure("timeline.link: " + link.error().text);
  for (const Scenario::Capture& capture : scenario_.captures) {
    if (capture.link != wanted) continue;
    return failure(
        fmt::format("timeline.link={} is captured, too; allowed: a link without capture", wanted));
  }
  timeline_link_ = *link;
  return {};
}

Result<net::BuiltNode> Cluster::make_node(const net::NodeSpec& spec) {
  if (spec.kind == kWorkerKind) {
    const size_t rank = workers_.size();
    WorkerNodeConfig config = plan_.workers.at(rank);
    config.latency = &latency_;
    workers_.push_back(std::make_unique<WorkerNode>(network_, config, plan_.worker_seeds.at(rank)));
    return net::BuiltNode{workers_.back()->id(), nullptr, false};
  }
  if (spec.kind == kBackgroundKind) {
    const uint32_t worker = pattern_->background_to().at(backgrounds_.size());
    const double rate = static_cast<double>(scenario_.link_bits_per_s(worker)) *
                        scenario_.straggler.background_share;
    backgrounds_.push_back(std::make_unique<BackgroundFlow>(
        network_, BackgroundFlow::Config{.name = spec.name,
                                         .from = spec.address,
                                         .to = plan_.workers.at(worker).address,
                                         .bits_per_s = static_cast<uint64_t>(rate)}));
    return net::BuiltNode{backgrounds_.back()->id(), nullptr, false};
  }
  const auto wanted =
      std::find_if(plan_.aggregators.begin(), plan_.aggregators.end(),
                   [&](const AggregatorSpec& aggregator) { return aggregator.name == spec.name; });
  if (wanted == plan_.aggregators.end()) {
    return failure(fmt::format("kind='{}' is not allowed; allowed: {}, {}, {}, {}", spec.kind,
                               net::kSwitchKind, kWorkerKind, kAggregatorKind, kTopKind));
  }
  AggregatorSpec wanted_spec = *wanted;
  wanted_spec.values = scenario_.payload == Payload::kReal || training_.exchange != nullptr;
  auto made = backend_.make(network_, wanted_spec);
  if (!made) return tl::unexpected(made.error());
  aggregators_.push_back(*std::move(made));
  AggregatorNode& node = *aggregators_.back();
  return net::BuiltNode{node.id(), &node.table(), true};
}

// --- Running ---

/// Far beyond any run that makes progress. Assumes that each worker sleeps the maximum at each
/// delay point and computes at its slowest, and that the network carries a hundredth of its rate.
/// Adds a few deadlines.
Instant Cluster::limit() const {
  if (scenario_.limit != Duration()) return began_at_ + scenario_.limit;
  constexpr int64_t kSlowNetwork = 100;
  constexpr int64_t kDeadlines = 4;
  constexpr double kTailFactorMax = 12;  // HeavyTailPattern's.
  const auto patterns = static_cast<double>(kinds_in(scenario_.straggler.pattern).size());
  const double tail = 1 + kTailFactorMax * (scenario_.straggler.p99_over_p50 - 1);
  const double slow =
      patterns > 1 ? scenario_.straggler.factor * tail : std::max(scenario_.straggler.factor, tail);
  const uint64_t slowest_link = scenario_.slow_links.workers.empty()
                                    ? scenario_.link.rate_bits_per_s
                                    : scenario_.slow_links.rate_bits_per_s;
  const double wire_s = static_cast<double>(workload_.elements()) * scenario_.train * 32 /
                        static_cast<double>(slowest_link);
  const double iteration_s = in_seconds(workload_.forward + workload_.backward) * slow +
                             in_seconds(typical_iteration_) * 2 * host::kDelayPoints * patterns +
                             wire_s * kSlowNetwork;
  constexpr double kLongestSeconds = 1e7;  // Fits into Duration, and is longer than any use.
  const double total_s = std::min(
      iteration_s * scenario_.iterations + in_seconds(scenario_.host.deadline) * kDeadlines +
          in_seconds(scenario_.straggler.pause_for + scenario_.straggler.pause_at) +
          in_seconds(pattern_->recorded_total()),
      kLongestSeconds);
  return began_at_ + from_seconds(total_s);
}

template <class F>
bool Cluster::advance(Instant end, F&& done) {
  if (observer_ == nullptr) [[likely]]
    return core_.run_until(end, done);
  return advance_observed(end, done);
}

bool Cluster::advance_observed(Instant end, const std::function<bool()>& done) {
  bool all = false;
  core_.run_until(end, [&] {
    all = done();
    if (all || core_.next_at() > end) return all;
    ended_by_observer_ = !observer_->before_event(core_.next_at());
    return ended_by_observer_;
  });
  return all;
}

Result<void> Cluster::join_all() {
  for (const auto& worker : workers_) worker->start();
  uint32_t joined = 0;  // Workers below have joined or ended.
  const bool all = advance(limit(), [&] {
    while (joined < workers_.size() &&
           workers_[joined]->protocol().phase() != host::TensorProtocol::Phase::kJoining) {
      joined++;
    }
    return joined == workers_.size();
  });
  if (ended_by_observer_) return failure(kEndedByObserver);
  for (uint32_t rank = 0; rank < workers_.size(); rank++) {
    const host::TensorProtocol& protocol = workers_[rank]->protocol();
    if (protocol.phase() == host::TensorProtocol::Phase::kRunning) continue;
    const std::string why = all ? protocol.status_text() : "still joins at the run's limit";
    return failure(fmt::format("worker {} could not join the job: {}", rank, why));
  }
  return {};
}

void Cluster::begin_training() {
  began_at_ = core_.now();
  if (timeline_link_) {
    network_.set_tap(*timeline_link_, [this](Instant leaves_at, const net::Packet&) {
      const auto bin =
          static_cast<size_t>((leaves_at - began_at_).ticks() / scenario_.timeline.bin.ticks());
      if (bin >= kTimelineBinsMax) {
        timeline_later_ += scenario_.train;
        return;
      }
      if (bin >= timeline_.size()) timeline_.resize(bin + 1);
      timeline_[bin] += scenario_.train;
    });
  }
  for (const auto& background : backgrounds_) background->start();
  for (const auto& trainer : trainers_) trainer->begin();
}

Result<void> Cluster::train() {
  uint32_t done = 0;  // Workers below are done.
  const auto all_done = [&] {
    while (done < trainers_.size() && trainers_[done]->done()) {
      if (!trainers_[done]->failed().empty()) return true;
      done++;
    }
    return done == trainers_.size();
  };
  const auto pause = pattern_->pause();
  if (pause) {
    const bool early = advance(began_at_ + pause->at, all_done);
    if (!early && !ended_by_observer_) {
      core_.run_until(began_at_ + pause->at);
      for (const uint32_t worker : pause->workers) trainers_[worker]->pause(pause->length);
    }
  }
  if (!ended_by_observer_ && advance(limit(), all_done) && done == trainers_.size()) return {};
  if (ended_by_observer_) return failure(kEndedByObserver);
  return tl::unexpected(stuck_error());
}

Error Cluster::stuck_error() const {
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
    if (!trainer.failed().empty()) return {losses() + trainer.failed()};
    if (trainer.done()) continue;
    if (is_further_behind(trainer)) {
      behind = &trainer;
      behind_rank = rank;
    }
  }
  TRIB_ASSERT(behind != nullptr);
  return {fmt::format("{}worker {} is not done after {:.3f} s of virtual time: it {}", losses(),
                      behind_rank, in_seconds(limit() - began_at_), behind->doing())};
}

std::string Cluster::losses() const {
  constexpr std::string_view kDropped = "dropped: ";
  const RunResult result = collect();
  std::string text;
  for (const AggregatorResult& aggregator : result.aggregators) {
    for (const AggregatorResult::Part& part : aggregator.parts) {
      if (!part.name.starts_with(kDropped) || part.value == 0) continue;
      text += fmt::format("{} dropped {:.0f} packets: {}; ", aggregator.name, part.value,
                          part.name.substr(kDropped.size()));
    }
  }
  for (const LinkResult& link : result.links) {
    if (link.lost > 0) text += fmt::format("link {} lost {} packets; ", link.name, link.lost);
  }
  for (uint32_t rank = 0; rank < result.workers.size(); rank++) {
    const uint64_t lost = result.workers[rank].receive_overflows;
    if (lost > 0) text += fmt::format("worker {} dropped {} packets: buffer full; ", rank, lost);
  }
  return text;
}

Result<RunResult> Cluster::faithful(RunResult result) const {
  if (scenario_.train == 1 || !scenario_.host.retransmission) return result;
  for (const AggregatorResult& aggregator : result.aggregators) {
    for (const AggregatorResult::Part& part : aggregator.parts) {
      if (part.name != kPacketBufferFull) continue;
      return failure(
          fmt::format("{} dropped {:.0f} packets: packet buffer full. Workers repair such losses "
                      "packet by packet, trains of {} do not: set train=1, or a smaller window",
                      aggregator.name, part.value, scenario_.train));
    }
  }
  return result;
}

Result<RunResult> Cluster::run(RunObserver* observer) {
  if (observer == nullptr) return run_to_end();
  observer_ = observer;
  for (const auto& aggregator : aggregators_) inspected_.push_back(aggregator.get());
  if (const auto begun = observer->begin({core_, network_, inspected_}); !begun) {
    return tl::unexpected(begun.error());
  }
  auto result = run_to_end();
  observer->end();
  return result;
}

Result<RunResult> Cluster::run_to_end() {
  if (const auto joined = join_all(); !joined) return tl::unexpected(joined.error());
  begin_training();
  if (const auto trained = train(); !trained) return tl::unexpected(trained.error());
  for (net::PcapWriter& capture : captures_) {
    if (const auto written = capture.finish(); !written) return tl::unexpected(written.error());
  }
  return faithful(collect());
}

// --- Collecting ---

RunResult Cluster::collect() const {
  RunResult result;
  result.total = core_.now() - began_at_;
  result.typical_iteration = typical_iteration_;
  collect_iterations(result);
  for (uint32_t rank = 0; rank < trainers_.size(); rank++) {
    result.workers.push_back(trainers_[rank]->result());
    note_traffic(rank, result.workers.back());
    const host::CommunicatorCounters& counters = workers_[rank]->protocol().counters();
    result.blocks += counters.blocks * scenario_.train;
    result.degraded_blocks += counters.degraded_blocks * scenario_.train;
    result.wrong_sums += trainers_[rank]->wrong_sums();
    result.checked_sums += trainers_[rank]->checked_sums();
  }
  result.skipped_blocks = skipped_blocks();
  result.block_latency = summarise(latency_.summary());
  collect_links(result);
  result.timeline = timeline_;
  result.timeline_later = timeline_later_;
  for (const auto& aggregator : aggregators_) {
    result.aggregators.push_back(aggregator->result(result.total));
  }
  result.bottleneck = bottleneck(result);
  result.packets = network_.counters().delivered;
  result.events = core_.executed_count();
  result.digest = network_.digest();
  return result;
}

uint64_t Cluster::skipped_blocks() const {
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
        std::count_if(trainers_.begin(), trainers_.end(),
                      [&](const auto& trainer) { return trainer->ends().size() > iteration; });
    count += blocks * scenario_.train * static_cast<uint64_t>(receivers);
  }
  return count;
}

void Cluster::collect_iterations(RunResult& result) const {
  std::vector<const std::vector<Instant>*> ends;
  for (uint32_t rank = 0; rank < trainers_.size(); rank++) {
    if (trainers_[rank]->ends().size() == scenario_.iterations) {
      ends.push_back(&trainers_[rank]->ends());
    }
  }
  if (ends.empty()) return;  // All workers have dropped out.
  Instant before = began_at_;
  for (uint32_t i = 0; i < scenario_.iterations; i++) {
    std::vector<Instant> at;
    for (const auto* of_worker : ends) at.push_back((*of_worker)[i]);
    const auto median = at.begin() + static_cast<ptrdiff_t>((at.size() - 1) / 2);
    std::nth_element(at.begin(), median, at.end());
    result.iterations.push_back(*median - before);
    before = *median;
  }
  result.mean_iteration = (before - began_at_) / scenario_.iterations;
}

/// Records the traffic on the cable of the worker's host.
void Cluster::note_traffic(uint32_t rank, WorkerResult& worker) const {
  const auto host = network_.find_node(plan_.host_nodes[rank]);
  const auto out = host ? network_.link_at(*host, 0) : Result<net::LinkId>(0);
  TRIB_ASSERT(host && out);
  worker.wire_bytes_sent = network_.counters(*out).bytes;
  // The two directions of a cable follow each other; the first is the even one (net::Network).
  worker.wire_bytes_received = network_.counters(*out ^ 1U).bytes;
}

void Cluster::collect_links(RunResult& result) const {
  for (net::LinkId link = 0; link < network_.link_count(); link++) {
    const net::LinkCounters counters = network_.counters(link);
    const double bits = static_cast<double>(counters.bytes) * 8;
    const double room =
        static_cast<double>(network_.config(link).rate_bits_per_s) * in_seconds(result.total);
    result.links.push_back(
        {.name = network_.link_name(link),
         .packets = counters.packets,
         .bytes = counters.bytes,
         .lost = counters.tail_dropped + counters.lost + counters.corrupted + counters.cut,
         .marked = counters.marked,
         .queue_bytes_peak = counters.queue_bytes_peak,
         .utilisation = room > 0 ? bits / room : 0});
  }
}

/// Names the use of computation, of the busiest link and of each aggregator, the busier of the
/// first two first.
std::string Cluster::bottleneck(const RunResult& result) const {
  double computed = 0;
  for (const WorkerResult& worker : result.workers) {
    const double all = in_seconds(worker.finished_at);
    if (all > 0) computed = std::max(computed, in_seconds(worker.computed) / all);
  }
  const auto busiest = std::max_element(
      result.links.begin(), result.links.end(),
      [](const LinkResult& a, const LinkResult& b) { return a.utilisation < b.utilisation; });
  std::string text = fmt::format("workers compute up to {:.0f} % of the time", computed * 100);
  if (busiest != result.links.end()) {
    const std::string link =
        fmt::format("link {} is used {:.0f} %", busiest->name, busiest->utilisation * 100);
    text = busiest->utilisation > computed ? link + "; " + text : text + "; " + link;
  }
  for (size_t i = 0; i < result.aggregators.size();) {
    // Aggregators in a row with the same bottleneck share one entry.
    const AggregatorResult& first = result.aggregators[i];
    size_t last = i;
    while (last + 1 < result.aggregators.size() &&
           result.aggregators[last + 1].bottleneck == first.bottleneck) {
      last++;
    }
    const std::string names =
        last == i ? first.name : fmt::format("{} to {}", first.name, result.aggregators[last].name);
    text += fmt::format("; {}: {}", names, first.bottleneck);
    i = last + 1;
  }
  return text;
}

}  // namespace tributary::lab

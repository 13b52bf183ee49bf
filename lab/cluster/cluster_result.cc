// SPDX-License-Identifier: Apache-2.0
// The results of a cluster: what its network carried and lost, the warnings, the bottleneck.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/slot_ledger.h"
#include "lab/backends/parameter_server.h"
#include "lab/cluster/cluster.h"
#include "lab/inspect/pfe_report.h"

namespace tributary::lab {
namespace {

/// A run warns if trains make more packets than this of each real one. Assumed: a twentieth does
/// not change which system is faster.
constexpr double kTrainExcessMax = 1.05;

}  // namespace

// --- Losses and warnings ---

std::vector<Cluster::Loss> Cluster::losses(const RunResult& network) const {
  constexpr std::string_view kDropped = "dropped: ";
  std::vector<Loss> all;
  for (const AggregatorResult& aggregator : network.aggregators) {
    for (const AggregatorResult::Part& part : aggregator.parts) {
      if (!part.name.starts_with(kDropped) || part.value == 0) continue;
      const bool overflowed = part.name == kPacketBufferFull || part.name == kReceiveBufferFull;
      all.push_back({.text = fmt::format("{} dropped {:.0f} packets: {}", aggregator.name,
                                         part.value, part.name.substr(kDropped.size())),
                     .by_program = !overflowed});
    }
  }
  for (const LinkResult& link : network.links) {
    if (link.lost == 0) continue;
    all.push_back({.text = fmt::format("link {} lost {} packets", link.name, link.lost)});
  }
  for (const auto& job : jobs_) {
    for (std::string& line : job->losses()) all.push_back({.text = std::move(line)});
  }
  return all;
}

std::vector<std::string> Cluster::job_warnings(const JobRun& job, const RunResult& run) {
  const std::string place = job.name().empty() ? "" : fmt::format("job '{}': ", job.name());
  std::vector<std::string> all;
  if (run.dropouts() > 0) {
    all.push_back(
        fmt::format("{}{} of {} workers dropped out; times and shares are those of the others",
                    place, run.dropouts(), run.workers.size()));
  }
  const StragglerSettings& straggler = job.scenario().straggler;
  if (straggler.pattern.contains(Straggling::kPause) && straggler.pause_at >= run.total) {
    all.push_back(fmt::format("{}the pause at {:g} ms never began: the run took {:.4g} ms", place,
                              1e3 * in_seconds(straggler.pause_at), 1e3 * in_seconds(run.total)));
  }
  return all;
}

std::vector<std::string> Cluster::train_warnings(const RunResult& network) const {
  if (network_scenario_.train == 1) return {};
  std::vector<std::string> all;
  for (const auto& job : jobs_) {
    const double packets = job->packets_per_real_packet();
    if (packets <= kTrainExcessMax) continue;
    all.push_back(fmt::format(
        "{}Trains of {} make {:.2f} packets of each real one, because they fill up the end of each "
        "bucket, so counts and times are too high: set a smaller train",
        job->name().empty() ? "" : fmt::format("job '{}': ", job->name()), job->scenario().train,
        packets));
  }
  for (const auto& job : jobs_) {
    const host::CongestionControl congestion = job->scenario().host.congestion;
    if (congestion == host::CongestionControl::kNone) continue;
    all.push_back(fmt::format(
        "{}With host.congestion={} windows grow and shrink by whole trains of {}, which changes "
        "times. In experiments/incast_ecn.toml trains of 4 take 12 % longer than single packets "
        "with "
        "dctcp, and three times as long with aimd: set train=1",
        job->name().empty() ? "" : fmt::format("job '{}': ", job->name()),
        host::name_of(congestion), job->scenario().train));
  }
  constexpr size_t kNamedMax = 8;
  size_t count = 0;
  std::string text;
  for (const Loss& loss : losses(network)) {
    if (loss.by_program) continue;
    if (count < kNamedMax) text += (count == 0 ? "" : "; ") + loss.text;
    count++;
  }
  if (count == 0) return all;
  if (count > kNamedMax) text += fmt::format("; {} more places lost packets", count - kNamedMax);
  all.push_back(
      fmt::format("{}. Trains of {} are lost and repaired as a whole, so these counts and the "
                  "times may be far from those of single packets: set train=1",
                  text, network_scenario_.train));
  return all;
}

std::vector<std::string> Cluster::fidelity_warnings(const RunResult& network) const {
  const bool is_burst = network_scenario_.pfe.fidelity == engine::Fidelity::kBurst;
  std::vector<std::string> all;
  for (const AggregatorResult& aggregator : network.aggregators) {
    for (const AggregatorResult::Part& part : aggregator.parts) {
      if (part.name != kReservationsOverflowed) continue;
      all.push_back(fmt::format(
          "{} has {:.0f} requests for which a bank or PPE has no room within {:.1f} ms. "
          "The model does not count their time, so times are too short{}",
          aggregator.name, part.value, 1e3 * in_seconds(engine::SlotLedger::kReach),
          is_burst ? ": set pfe.fidelity=exact" : ""));
    }
  }
  return all;
}

Result<void> Cluster::check_faithful(const std::vector<AggregatorResult>& aggregators) const {
  const bool repairs = std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) {
    return job->scenario().host.retransmission;
  });
  if (network_scenario_.train == 1 || !repairs) return {};
  for (const AggregatorResult& aggregator : aggregators) {
    for (const AggregatorResult::Part& part : aggregator.parts) {
      if (part.name != kPacketBufferFull) continue;
      return failure(
          fmt::format("{} dropped {:.0f} packets: packet buffer full. Workers repair such losses "
                      "packet by packet, trains of {} do not: set train=1, or a smaller window",
                      aggregator.name, part.value, network_scenario_.train));
    }
  }
  return {};
}

// --- Collecting ---

/// Adds the network's part to a result.
void Cluster::collect_network(RunResult& result) const {
  const Duration elapsed = core_.now() - began_at_;
  collect_links(result, elapsed);
  for (const auto& aggregator : aggregators_) {
    result.aggregators.push_back(aggregator->result(elapsed));
  }
  result.packets = network_.counters().delivered;
  result.events = core_.executed_count();
  result.digest = network_.digest();
}

void Cluster::collect_links(RunResult& result, Duration elapsed) const {
  for (net::LinkId link = 0; link < network_.link_count(); link++) {
    const net::LinkCounters counters = network_.counters(link);
    const uint64_t before = link < sent_before_.size() ? sent_before_[link] : 0;
    const double bits = static_cast<double>(sent_bytes(network_, link) - before) * 8;
    const double room =
        static_cast<double>(network_.config(link).rate_bits_per_s) * in_seconds(elapsed);
    result.links.push_back(
        {.name = network_.link_name(link),
         .packets = counters.packets,
         .bytes = counters.bytes,
         .lost = counters.tail_dropped + counters.lost + counters.corrupted + counters.cut,
         .dropped = counters.tail_dropped,
         .duplicated = counters.duplicated,
         .marked = counters.marked,
         .queue_bytes_peak = counters.queue_bytes_peak,
         .utilisation = room > 0 ? bits / room : 0});
  }
}

/// Names the use of computation, of the busiest link and of the busiest worker's CPU, the busiest
/// of the three first. Then names each aggregator.
std::string Cluster::bottleneck(const RunResult& result) const {
  double computed = 0;
  double packet_cpu = 0;
  for (const WorkerResult& worker : result.workers) {
    const double all = in_seconds(worker.finished_at);
    if (all <= 0) continue;
    computed = std::max(computed, in_seconds(worker.computed) / all);
    packet_cpu = std::max(packet_cpu, in_seconds(worker.packet_cpu) / all);
  }
  std::vector<std::pair<double, std::string>> uses;
  uses.emplace_back(computed,
                    fmt::format("workers compute up to {:.0f} % of the time", computed * 100));
  const auto busiest = std::max_element(
      result.links.begin(), result.links.end(),
      [](const LinkResult& a, const LinkResult& b) { return a.utilisation < b.utilisation; });
  if (busiest != result.links.end()) {
    uses.emplace_back(busiest->utilisation, fmt::format("link {} is used {:.0f} %", busiest->name,
                                                        busiest->utilisation * 100));
  }
  uses.emplace_back(packet_cpu,
                    fmt::format("worker CPU is used {:.0f} % for packets", packet_cpu * 100));
  std::ranges::sort(uses, std::greater<>());
  std::string text;
  for (const auto& [share, use] : uses) text += (text.empty() ? "" : "; ") + use;
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

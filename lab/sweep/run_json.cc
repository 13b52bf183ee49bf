// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/run_json.h"

#include <fmt/format.h>

namespace tributary::lab {
namespace {

Json summary_json(const DurationSummary& summary) {
  return {{"count", summary.count},         {"mean_ns", json_ns(summary.mean)},
          {"min_ns", json_ns(summary.min)}, {"p50_ns", json_ns(summary.p50)},
          {"p90_ns", json_ns(summary.p90)}, {"p99_ns", json_ns(summary.p99)},
          {"max_ns", json_ns(summary.max)}};
}

Json workers_json(const RunResult& result) {
  Json workers = Json::array();
  for (const WorkerResult& worker : result.workers) {
    workers.push_back({{"computed_ns", json_ns(worker.computed)},
                       {"waited_ns", json_ns(worker.waited)},
                       {"slept_ns", json_ns(worker.slept)},
                       {"iterations", worker.iterations},
                       {"iterations_skipped", worker.iterations_skipped},
                       {"contributions", worker.contributions},
                       {"contributions_lost", worker.contributions_lost},
                       {"sums_missed", worker.sums_missed},
                       {"packets_sent", worker.packets_sent},
                       {"packets_received", worker.packets_received},
                       {"wire_bytes_sent", worker.wire_bytes_sent},
                       {"wire_bytes_received", worker.wire_bytes_received},
                       {"retransmissions", worker.retransmissions},
                       {"probes", worker.probes},
                       {"receive_overflows", worker.receive_overflows},
                       {"dropped_out", worker.dropped_out},
                       {"finished_at_ns", json_ns(worker.finished_at)}});
  }
  return workers;
}

Json links_json(const RunResult& result) {
  Json links = Json::array();
  for (const LinkResult& link : result.links) {
    links.push_back({{"name", link.name},
                     {"packets", link.packets},
                     {"bytes", link.bytes},
                     {"lost", link.lost},
                     {"marked", link.marked},
                     {"queue_bytes_peak", link.queue_bytes_peak},
                     {"utilisation", link.utilisation}});
  }
  return links;
}

Json aggregators_json(const RunResult& result) {
  Json aggregators = Json::array();
  for (const AggregatorResult& aggregator : result.aggregators) {
    Json parts = Json::array();
    for (const AggregatorResult::Part& part : aggregator.parts) {
      parts.push_back({{"name", part.name}, {"value", part.value}, {"unit", part.unit}});
    }
    aggregators.push_back({{"name", aggregator.name},
                           {"packets", aggregator.packets},
                           {"dropped", aggregator.dropped},
                           {"latency", summary_json(aggregator.latency)},
                           {"parts", std::move(parts)},
                           {"bottleneck", aggregator.bottleneck}});
  }
  return aggregators;
}

}  // namespace

double json_ns(Duration duration) {
  return static_cast<double>(duration.ticks()) / static_cast<double>(nanoseconds(1).ticks());
}

Json run_json(const RunResult& result) {
  Json iterations = Json::array();
  for (const Duration iteration : result.iterations) iterations.push_back(json_ns(iteration));
  return {{"mean_iteration_ns", json_ns(result.mean_iteration)},
          {"total_ns", json_ns(result.total)},
          {"typical_iteration_ns", json_ns(result.typical_iteration)},
          {"bottleneck", result.bottleneck},
          {"blocks", result.blocks},
          {"degraded_blocks", result.degraded_blocks},
          {"degraded_fraction", result.degraded_fraction()},
          {"wrong_sums", result.wrong_sums},
          {"checked_sums", result.checked_sums},
          {"block_latency", summary_json(result.block_latency)},
          {"iterations_ns", std::move(iterations)},
          {"workers", workers_json(result)},
          {"links", links_json(result)},
          {"timeline", result.timeline},
          {"timeline_later", result.timeline_later},
          {"aggregators", aggregators_json(result)},
          {"packets", result.packets},
          {"events", result.events},
          {"digest", fmt::format("{:016x}", result.digest)}};
}

}  // namespace tributary::lab

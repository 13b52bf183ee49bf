// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/run_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace tributary::lab {
namespace {

/// Returns null for each time of a summary of nothing.
Json summary_json(const DurationSummary& summary) {
  const auto ns = [&summary](Duration time) {
    return summary.count == 0 ? Json() : Json(as_ns(time));
  };
  return {{"count", summary.count},    {"mean_ns", ns(summary.mean)}, {"min_ns", ns(summary.min)},
          {"p50_ns", ns(summary.p50)}, {"p90_ns", ns(summary.p90)},   {"p99_ns", ns(summary.p99)},
          {"max_ns", ns(summary.max)}};
}

Json workers_json(const RunResult& result) {
  Json workers = Json::array();
  for (const WorkerResult& worker : result.workers) {
    workers.push_back({{"computed_ns", as_ns(worker.computed)},
                       {"waited_ns", as_ns(worker.waited)},
                       {"slept_ns", as_ns(worker.slept)},
                       {"packet_cpu_ns", as_ns(worker.packet_cpu)},
                       {"iterations", worker.iterations},
                       {"iterations_skipped", worker.iterations_skipped},
                       {"contributions", worker.contributions},
                       {"blocks_skipped", worker.blocks_skipped},
                       {"contributions_lost", worker.contributions_lost},
                       {"contributions_unclear", worker.contributions_unclear},
                       {"sums_missed", worker.sums_missed},
                       {"packets_sent", worker.packets_sent},
                       {"packets_received", worker.packets_received},
                       {"wire_bytes_sent", worker.wire_bytes_sent},
                       {"wire_bytes_received", worker.wire_bytes_received},
                       {"retransmissions", worker.retransmissions},
                       {"probes", worker.probes},
                       {"receive_overflows", worker.receive_overflows},
                       {"dropped_out", worker.dropped_out},
                       {"finished_at_ns", as_ns(worker.finished_at)}});
    if (worker.staleness.pushes_sum == 0) continue;
    workers.back()["staleness_sum"] = worker.staleness.pushes_sum;
    workers.back()["staleness_max"] = worker.staleness.pushes_max;
  }
  return workers;
}

// --- Reading -------------------------------------------------------------------------------------

/// Throws std::out_of_range where a number is not a whole number of T, or lies beyond T.
template <typename T = uint64_t>
T whole_number(const Json& json) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > std::numeric_limits<T>::max()) {
    throw std::out_of_range("not a count");
  }
  return json.get<T>();
}

Duration read_ns(const Json& json, const char* key) {
  const std::optional<Duration> duration = read_duration(json.at(key));
  if (!duration) throw std::out_of_range("not a time");
  return *duration;
}

/// A number that is not finite is written as null.
double read_number(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

DurationSummary read_summary(const Json& json) {
  if (whole_number(json.at("count")) == 0) return {};
  return {.count = whole_number(json.at("count")),
          .mean = read_ns(json, "mean_ns"),
          .min = read_ns(json, "min_ns"),
          .p50 = read_ns(json, "p50_ns"),
          .p90 = read_ns(json, "p90_ns"),
          .p99 = read_ns(json, "p99_ns"),
          .max = read_ns(json, "max_ns")};
}

WorkerResult read_worker(const Json& json) {
  const auto count = [&json](const char* key) { return whole_number(json.at(key)); };
  WorkerResult worker;
  worker.computed = read_ns(json, "computed_ns");
  worker.waited = read_ns(json, "waited_ns");
  worker.slept = read_ns(json, "slept_ns");
  worker.packet_cpu = read_ns(json, "packet_cpu_ns");
  worker.iterations = whole_number<uint32_t>(json.at("iterations"));
  worker.iterations_skipped = whole_number<uint32_t>(json.at("iterations_skipped"));
  worker.contributions = count("contributions");
  worker.blocks_skipped = count("blocks_skipped");
  worker.contributions_lost = count("contributions_lost");
  worker.contributions_unclear = count("contributions_unclear");
  worker.sums_missed = count("sums_missed");
  worker.packets_sent = count("packets_sent");
  worker.packets_received = count("packets_received");
  worker.wire_bytes_sent = count("wire_bytes_sent");
  worker.wire_bytes_received = count("wire_bytes_received");
  worker.retransmissions = count("retransmissions");
  worker.probes = count("probes");
  worker.receive_overflows = count("receive_overflows");
  worker.dropped_out = json.at("dropped_out").get<bool>();
  worker.finished_at = read_ns(json, "finished_at_ns");
  if (!json.contains("staleness_sum")) return worker;
  worker.staleness.pushes_sum = count("staleness_sum");
  worker.staleness.pushes_max = whole_number<uint32_t>(json.at("staleness_max"));
  return worker;
}

LinkResult read_link(const Json& json) {
  const auto count = [&json](const char* key) { return whole_number(json.at(key)); };
  return {.name = json.at("name").get<std::string>(),
          .packets = count("packets"),
          .bytes = count("bytes"),
          .lost = count("lost"),
          .dropped = count("dropped"),
          .duplicated = count("duplicated"),
          .marked = count("marked"),
          .queue_bytes_peak = count("queue_bytes_peak"),
          .utilisation = read_number(json, "utilisation")};
}

PartKind kind_of_part(const std::string& name) {
  const auto found = std::find(kPartNames.begin(), kPartNames.end(), name);
  return static_cast<PartKind>(found - kPartNames.begin());
}

AggregatorResult read_aggregator(const Json& json) {
  AggregatorResult aggregator;
  aggregator.name = json.at("name").get<std::string>();
  aggregator.packets = whole_number(json.at("packets"));
  aggregator.dropped = whole_number(json.at("dropped"));
  aggregator.latency = read_summary(json.at("latency"));
  for (const Json& part : json.at("parts")) {
    auto name = part.at("name").get<std::string>();
    const PartKind kind = kind_of_part(name);
    aggregator.parts.push_back({.name = std::move(name),
                                .value = read_number(part, "value"),
                                .unit = part.at("unit").get<std::string>(),
                                .kind = kind});
  }
  aggregator.bottleneck = json.at("bottleneck").get<std::string>();
  return aggregator;
}

/// Throws an exception of nlohmann's or of the standard library where the JSON is not a result.
RunResult read_result(const Json& json) {
  RunResult result;
  result.mean_iteration = read_ns(json, "mean_iteration_ns");
  result.total = read_ns(json, "total_ns");
  result.typical_iteration = read_ns(json, "typical_iteration_ns");
  result.bottleneck = json.at("bottleneck").get<std::string>();
  result.blocks = whole_number(json.at("blocks"));
  result.degraded_blocks = whole_number(json.at("degraded_blocks"));
  result.skipped_blocks = whole_number(json.at("skipped_blocks"));
  result.wrong_sums = whole_number(json.at("wrong_sums"));
  result.checked_sums = whole_number(json.at("checked_sums"));
  result.block_latency = read_summary(json.at("block_latency"));
  for (const Json& ns : json.at("iterations_ns")) {
    const std::optional<Duration> iteration = read_duration(ns);
    if (!iteration) throw std::out_of_range("not a time");
    result.iterations.push_back(*iteration);
  }
  for (const Json& worker : json.at("workers")) result.workers.push_back(read_worker(worker));
  for (const Json& link : json.at("links")) result.links.push_back(read_link(link));
  for (const Json& count : json.at("timeline")) result.timeline.push_back(whole_number(count));
  result.timeline_later = whole_number(json.at("timeline_later"));
  for (const Json& aggregator : json.at("aggregators")) {
    result.aggregators.push_back(read_aggregator(aggregator));
  }
  result.warnings = json.at("warnings").get<std::vector<std::string>>();
  result.packets = whole_number(json.at("packets"));
  result.events = whole_number(json.at("events"));
  result.digest = std::stoull(json.at("digest").get<std::string>(), nullptr, 16);
  return result;
}

}  // namespace

Json links_json(const std::vector<LinkResult>& all) {
  Json links = Json::array();
  for (const LinkResult& link : all) {
    links.push_back({{"name", link.name},
                     {"packets", link.packets},
                     {"bytes", link.bytes},
                     {"lost", link.lost},
                     {"dropped", link.dropped},
                     {"duplicated", link.duplicated},
                     {"marked", link.marked},
                     {"queue_bytes_peak", link.queue_bytes_peak},
                     {"utilisation", link.utilisation}});
  }
  return links;
}

Json aggregators_json(const std::vector<AggregatorResult>& all) {
  Json aggregators = Json::array();
  for (const AggregatorResult& aggregator : all) {
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

Json run_json(const RunResult& result) {
  Json iterations = Json::array();
  for (const Duration iteration : result.iterations) iterations.push_back(as_ns(iteration));
  return {{"mean_iteration_ns", as_ns(result.mean_iteration)},
          {"total_ns", as_ns(result.total)},
          {"typical_iteration_ns", as_ns(result.typical_iteration)},
          {"bottleneck", result.bottleneck},
          {"blocks", result.blocks},
          {"degraded_blocks", result.degraded_blocks},
          {"degraded_fraction", result.degraded_fraction()},
          {"skipped_blocks", result.skipped_blocks},
          {"skipped_fraction", result.skipped_fraction()},
          {"missed_fraction", result.missed_fraction()},
          {"wrong_sums", result.wrong_sums},
          {"checked_sums", result.checked_sums},
          {"block_latency", summary_json(result.block_latency)},
          {"iterations_ns", std::move(iterations)},
          {"workers", workers_json(result)},
          {"links", links_json(result.links)},
          {"timeline", result.timeline},
          {"timeline_later", result.timeline_later},
          {"aggregators", aggregators_json(result.aggregators)},
          {"warnings", result.warnings},
          {"packets", result.packets},
          {"events", result.events},
          {"digest", fmt::format("{:016x}", result.digest)}};
}

std::optional<Duration> read_duration(const Json& ns) {
  // Doubles hold every tick up to 2^53 of them: 25 hours.
  constexpr double kMaxNs = 90'071'992'547'409.92;
  if (!ns.is_number() || std::abs(ns.get<double>()) > kMaxNs) return std::nullopt;
  return from_ns(ns.get<double>());
}

std::optional<RunResult> read_run_json(const Json& json) {
  try {
    return read_result(json);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace tributary::lab

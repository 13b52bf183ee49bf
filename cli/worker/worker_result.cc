// SPDX-License-Identifier: Apache-2.0
#include "cli/worker/worker_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/result_file.h"

namespace tributary::cli {
namespace {

constexpr uint32_t kElementBytes = 4;

// Division rounds once, so 60 s is shown as 60, not 59.99….
double exact_milliseconds(Duration d) { return static_cast<double>(in_nanoseconds(d)) / 1e6; }
double seconds_of(Duration d) { return static_cast<double>(in_nanoseconds(d)) / 1e9; }

const char* name_of(ElementType type) { return type == ElementType::kInt32 ? "int32" : "float32"; }

std::string owner_text(const WorkerOptions& options) {
  if (options.owner == Owner::kRank) return std::to_string(options.owner_rank);
  if (options.owner == Owner::kAll) return "all";
  return options.owner == Owner::kTurns ? "turns" : "drawn";
}

const char* name_of(host::ReduceOp op) { return op == host::ReduceOp::kMean ? "mean" : "sum"; }
const char* name_of(host::FloatFormat format) {
  return format == host::FloatFormat::kBlockExponent ? "exponent" : "fixed";
}

/// Returns the settings under the names of their flags.
nlohmann::ordered_json config_json(const WorkerOptions& options) {
  nlohmann::ordered_json config{
      {"protocol", to_string(options.protocol)},
      {"server", options.server},
      {"job", options.session.job_id},
      {"type", name_of(options.type)},
      {"format", name_of(options.reduction.format)},
      {"wire", options.session.wire == host::WireBits::k16 ? 16 : 32},
      {"scale", options.reduction.scale},
      {"op", name_of(options.reduction.op)},
      {"owner", owner_text(options)},
      {"gradients", options.session.gradients},
      {"window", options.session.window},
      {"threads", options.session.threads},
      {"asynchronous", options.session.asynchronous},
      {"deadline-s", seconds_of(options.session.deadline)},
      {"iterations", options.iterations},
      {"inflight", options.inflight},
      {"priorities", options.session.priorities},
      {"urgent-elements", options.urgent_elements},
      {"seed", options.seed},
      {"verify", options.verify},
      {"input", options.input_path},
      {"loss", options.faults.loss},
      {"duplicate", options.faults.duplicate},
      {"reorder", options.faults.reorder},
      {"straggle", options.straggle},
      {"straggle-iteration-ms", exact_milliseconds(options.straggle_iteration)}};
  if (options.protocol == Protocol::kTrioMl) {
    const auto& silent = options.session.server_silent;
    if (silent) config["server-silent-ms"] = exact_milliseconds(*silent);
    if (!silent) config["server-silent-ms"] = nullptr;  // Depends on the number of aggregators.
  } else {
    config["control"] = options.switchml.control;
    config["local"] = options.switchml.local;
    config["resend-ms"] = exact_milliseconds(options.switchml.resend_after);
  }
  return config;
}

}  // namespace

LatencySummary summarize(std::vector<Duration> latencies) {
  if (latencies.empty()) return {};
  std::sort(latencies.begin(), latencies.end());
  // Nearest rank: the smallest value that at least `percent` % of the values do not exceed.
  const auto percentile = [&](size_t percent) {
    return latencies[(latencies.size() * percent + 99) / 100 - 1];
  };
  return {latencies.front(), percentile(50), percentile(99), latencies.back()};
}

double goodput_gbytes_per_second(const WorkerResult& result) {
  if (result.busy <= Duration()) return 0;
  const double bytes = static_cast<double>(result.options.elements) * kElementBytes *
                       static_cast<double>(result.iterations);
  return bytes / seconds_of(result.busy) / 1e9;
}

namespace {

nlohmann::ordered_json latency_json(const LatencySummary& latency) {
  return {{"min", exact_milliseconds(latency.min)},
          {"p50", exact_milliseconds(latency.p50)},
          {"p99", exact_milliseconds(latency.p99)},
          {"max", exact_milliseconds(latency.max)}};
}

std::string latency_text(const LatencySummary& latency) {
  return fmt::format("min {:.3f}  p50 {:.3f}  p99 {:.3f}  max {:.3f} ms",
                     exact_milliseconds(latency.min), exact_milliseconds(latency.p50),
                     exact_milliseconds(latency.p99), exact_milliseconds(latency.max));
}

/// Returns the mean number of other ranks' pushes between two results of a block.
double mean_staleness(const WorkerResult& result) {
  if (result.staleness_blocks == 0) return 0;
  return static_cast<double>(result.staleness.pushes_sum) /
         static_cast<double>(result.staleness_blocks);
}

}  // namespace

int exit_code(const WorkerResult& result) {
  if (result.interrupted) return kExitInterrupted;
  return result.status == kStatusOk && result.wrong == 0 ? 0 : 1;
}

nlohmann::ordered_json to_json(const WorkerResult& result) {
  return {{"status", result.status},
          {"error", result.error},
          {"rank", result.options.session.rank},
          {"world", result.options.session.world},
          {"elements", result.options.elements},
          {"iterations", result.iterations},
          {"seconds", seconds_of(result.busy)},
          {"wall_seconds", seconds_of(result.wall)},
          {"goodput_GBps", goodput_gbytes_per_second(result)},
          {"latency_ms", latency_json(summarize(result.latencies))},
          {"urgent_latency_ms", result.urgent_latencies.empty()
                                    ? nlohmann::ordered_json()
                                    : latency_json(summarize(result.urgent_latencies))},
          {"checked", result.checked},
          {"wrong", result.wrong},
          {"checksum", result.checked == 0 ? "" : fmt::format("{:016x}", result.checksum)},
          {"threads", result.threads},
          {"windows", result.windows},
          {"blocks", result.counters.blocks},
          {"result_bytes", result.counters.bytes},
          {"degraded", result.counters.degraded_blocks},
          {"degraded_elements", result.degraded_elements},
          {"staleness_mean", mean_staleness(result)},
          {"staleness_max", result.staleness.pushes_max},
          {"packets_sent", result.counters.packets_sent},
          {"packets_received", result.counters.packets_received},
          {"retransmitted", result.counters.retransmitted},
          {"probes", result.counters.probes},
          {"duplicate_results", result.counters.duplicate_results},
          {"invalid_packets", result.counters.invalid_packets},
          {"forged_packets", result.counters.forged_packets},
          {"replayed_packets", result.counters.replayed_packets},
          {"underflowed", result.counters.underflowed},
          {"warning", result.warning},
          {"config", config_json(result.options)}};
}

std::string to_table(const WorkerResult& result) {
  const WorkerOptions& options = result.options;
  std::string table;
  const auto row = [&table](const char* name, const std::string& value) {
    table += fmt::format("  {:<14}{}\n", name, value);
  };
  table += fmt::format("rank {} of {}: {}\n", options.session.rank, options.session.world,
                       result.status);
  row("all-reduces",
      fmt::format("{} of {}, {} x {} {}", result.iterations, options.iterations, options.elements,
                  name_of(options.type), name_of(options.reduction.op)));
  if (result.iterations == 0) return table;
  row("goodput", fmt::format("{:.3f} GB/s in {:.3f} s", goodput_gbytes_per_second(result),
                             seconds_of(result.busy)));
  row("latency", latency_text(summarize(result.latencies)));
  if (!result.urgent_latencies.empty()) {
    row("urgent", latency_text(summarize(result.urgent_latencies)));
  }
  row("channels", fmt::format("{}, --threads {}", result.threads, options.session.threads));
  row("packets", fmt::format("{} sent, {} received, {} retransmitted, {} probes",
                             result.counters.packets_sent, result.counters.packets_received,
                             result.counters.retransmitted, result.counters.probes));
  row("degraded",
      fmt::format("{} of {} blocks", result.counters.degraded_blocks, result.counters.blocks));
  const bool narrow = options.session.wire == host::WireBits::k16;
  row(narrow ? "in bounds" : "bit-exact",
      result.checked == 0
          ? std::string("not checked")
          : fmt::format("{}, {} of {} elements wrong", result.wrong == 0 ? "yes" : "no",
                        result.wrong, result.checked));
  if (options.session.asynchronous) {
    row("staleness", fmt::format("mean {:.2f}, largest {} pushes of other ranks",
                                 mean_staleness(result), result.staleness.pushes_max));
  }
  if (result.counters.underflowed > 0) {
    row("underflowed", fmt::format("{} elements", result.counters.underflowed));
  }
  if (!result.warning.empty()) row("warning", result.warning);
  return table;
}

std::string write_json(const WorkerResult& result) {
  const std::string& path = result.options.json_path;
  if (path.empty()) return "";
  const auto written = write_result_file(path, to_json(result).dump(2) + "\n");
  return written ? "" : fmt::format("--json {}", written.error().text);
}

}  // namespace tributary::cli

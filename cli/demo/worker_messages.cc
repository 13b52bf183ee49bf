// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/worker_messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tributary::demo {
namespace {

using Json = nlohmann::json;

Json to_json(const WorkerJoined& joined) { return {{"joined", {{"rank", joined.rank}}}}; }

Json to_json(const IterationRecord& record) {
  return {{"iteration",
           {{"iteration", record.iteration},
            {"seconds", record.seconds},
            {"loss", record.loss},
            {"degraded_blocks", record.degraded_blocks}}}};
}

Json to_json(const WorkerReport& report) {
  const host::CommunicatorCounters& counters = report.counters;
  return {{"report",
           {{"rank", report.rank},
            {"parameter_checksum", report.parameter_checksum},
            {"validation_loss", report.validation_loss},
            {"late_iterations", report.late_iterations},
            {"sums_checked", report.sums.checked},
            {"sums_wrong", report.sums.wrong},
            {"sums_unchecked", report.sums.unchecked},
            {"packets_sent", counters.packets_sent},
            {"packets_received", counters.packets_received},
            {"retransmitted", counters.retransmitted},
            {"probes", counters.probes},
            {"blocks", counters.blocks},
            {"degraded_blocks", counters.degraded_blocks},
            {"duplicate_results", counters.duplicate_results},
            {"invalid_packets", counters.invalid_packets}}}};
}

/// Reads the number `object[name]` into `value`. Clears `complete` if there is none.
template <class T>
void take(const Json& object, const char* name, T& value, bool& complete) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) {
    complete = false;
    return;
  }
  value = found->get<T>();
}

IterationRecord iteration_from(const Json& object, bool& complete) {
  IterationRecord record;
  take(object, "iteration", record.iteration, complete);
  take(object, "seconds", record.seconds, complete);
  take(object, "loss", record.loss, complete);
  take(object, "degraded_blocks", record.degraded_blocks, complete);
  return record;
}

WorkerReport report_from(const Json& object, bool& complete) {
  WorkerReport report;
  host::CommunicatorCounters& counters = report.counters;
  take(object, "rank", report.rank, complete);
  take(object, "parameter_checksum", report.parameter_checksum, complete);
  take(object, "validation_loss", report.validation_loss, complete);
  take(object, "late_iterations", report.late_iterations, complete);
  take(object, "sums_checked", report.sums.checked, complete);
  take(object, "sums_wrong", report.sums.wrong, complete);
  take(object, "sums_unchecked", report.sums.unchecked, complete);
  take(object, "packets_sent", counters.packets_sent, complete);
  take(object, "packets_received", counters.packets_received, complete);
  take(object, "retransmitted", counters.retransmitted, complete);
  take(object, "probes", counters.probes, complete);
  take(object, "blocks", counters.blocks, complete);
  take(object, "degraded_blocks", counters.degraded_blocks, complete);
  take(object, "duplicate_results", counters.duplicate_results, complete);
  take(object, "invalid_packets", counters.invalid_packets, complete);
  return report;
}

}  // namespace

std::string encode(const WorkerMessage& message) {
  return std::visit([](const auto& alternative) { return to_json(alternative).dump(); }, message);
}

Result<WorkerMessage> decode(std::string_view line) {
  const auto refused = [line] {
    return failure(fmt::format("not a worker's message: '{}'", line));
  };
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.size() != 1 || !json.begin()->is_object()) return refused();

  const Json& object = *json.begin();
  const std::string& kind = json.begin().key();
  bool complete = true;
  WorkerMessage message;
  if (kind == "joined") {
    WorkerJoined joined;
    take(object, "rank", joined.rank, complete);
    message = joined;
  } else if (kind == "iteration") {
    message = iteration_from(object, complete);
  } else if (kind == "report") {
    message = report_from(object, complete);
  } else {
    complete = false;
  }
  if (!complete) return refused();
  return message;
}

}  // namespace tributary::demo

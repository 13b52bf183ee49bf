// SPDX-License-Identifier: Apache-2.0
#include "lab/telemetry/telemetry_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text_table.h"

namespace tributary::lab {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string shown(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string kib(uint64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / 1024); }

}  // namespace

std::string telemetry_text(const TelemetryComparison& settings, const TelemetryResult& result) {
  std::string text = fmt::format(
      "{} packets of {} flows (zipf {}, seed {}); {} large flows of at least {} packets; a report "
      "every {} ms\n\n",
      result.packets, result.flows, settings.zipf, settings.seed, result.large_flows,
      result.threshold, in_seconds(settings.period) * 1e3);
  TextTable table({0});
  table.add({"machine", "memory KiB", "SRAM KiB", "places", "recall %", "false", "count error %",
             "detect ms", "instructions", "passes", "uncounted", "lost", "reports KiB"});
  for (const TelemetryRow& row : result.rows) {
    table.add({row.machine, kib(row.memory_bytes), row.sram_bytes ? kib(*row.sram_bytes) : "-",
               fmt::format("{}", row.places), fmt::format("{:.1f}", row.score.recall * 100),
               fmt::format("{}", row.score.false_positives),
               fmt::format("{:.2f}", row.score.count_error * 100), shown(row.score.detect_ms, 1),
               shown(row.instructions_per_packet, 1), shown(row.passes_per_packet, 4),
               row.uncounted_packets ? fmt::format("{}", *row.uncounted_packets) : "-",
               fmt::format("{}", row.lost_packets), kib(row.report_bytes)});
  }
  return text + table.text();
}

std::string telemetry_json(const TelemetryComparison& settings, const TelemetryResult& result) {
  Json json;
  json["settings"] = {{"flows", settings.flows}, {"packets", settings.packets},
                      {"zipf", settings.zipf},   {"rate", settings.rate},
                      {"churn", settings.churn}, {"seed", settings.seed},
                      {"top", settings.top},     {"period_ms", in_seconds(settings.period) * 1e3}};
  json["trace"] = {{"packets", result.packets},
                   {"flows", result.flows},
                   {"large_flows", result.large_flows},
                   {"threshold", result.threshold}};
  json["rows"] = Json::array();
  for (const TelemetryRow& row : result.rows) {
    json["rows"].push_back({{"machine", row.machine},
                            {"memory_limit", row.memory_limit},
                            {"memory_bytes", row.memory_bytes},
                            {"sram_bytes", or_null(row.sram_bytes)},
                            {"places", row.places},
                            {"recall", row.score.recall},
                            {"false_positives", row.score.false_positives},
                            {"count_error", row.score.count_error},
                            {"detect_ms", or_null(row.score.detect_ms)},
                            {"instructions_per_packet", or_null(row.instructions_per_packet)},
                            {"passes_per_packet", or_null(row.passes_per_packet)},
                            {"uncounted_packets", or_null(row.uncounted_packets)},
                            {"lost_packets", row.lost_packets},
                            {"report_bytes", row.report_bytes}});
  }
  return json.dump(2) + "\n";
}

}  // namespace tributary::lab

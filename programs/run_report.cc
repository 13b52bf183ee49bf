// SPDX-License-Identifier: Apache-2.0
#include "programs/run_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::programs {
namespace {

using Json = nlohmann::ordered_json;

double microseconds_of(Duration duration) { return in_seconds(duration) * 1e6; }

/// Returns the mean time from the reorder engine to the last bit at the port; zero if the egress
/// side is not modelled.
Duration egress_mean(const engine::Report& pfe) {
  return pfe.left == 0 ? Duration() : pfe.egress_time / static_cast<int64_t>(pfe.left);
}

Json model_json(const ModelReport& model) {
  const engine::Report& pfe = model.pfe;
  Json json;
  json["generation"] = model.parameters.generation;
  json["refused_full"] = pfe.refused_full;
  json["refused_too_long"] = pfe.refused_too_long;
  json["instructions_per_packet"] = pfe.instructions_per_packet;
  json["latency_us_mean"] = microseconds_of(pfe.latency.mean);
  json["latency_us_p99"] = microseconds_of(pfe.latency.p99);
  json["egress_us_mean"] = microseconds_of(egress_mean(pfe));
  json["egress_us_max"] = microseconds_of(pfe.egress_time_max);
  json["threads_peak"] = pfe.threads_peak;
  json["timer_threads"] = pfe.timer_threads;
  json["memory_requests"] = pfe.memory_requests;
  for (const engine::XtxnCount& count : pfe.xtxn_counts) json["xtxns"][count.kind] = count.issued;
  for (const engine::ResourceUse& use : pfe.resources) json["use"][use.name] = use.share;
  json["bottleneck"] = engine::bottleneck(pfe);
  if (const auto limit = rate_limit(pfe)) {
    json["predicted_limit"] = {{"resource", limit->resource}, {"mpps", limit->packets_per_s / 1e6}};
  }
  for (const engine::InstructionCount& count : pfe.instruction_counts) {
    json["instructions"][count.name] = count.executed;
  }
  json["accounting"] = engine::accounting_json(model.accounting);
  return json;
}

std::string model_text(const ModelReport& model) {
  const engine::Report& pfe = model.pfe;
  std::string text = "Instructions: " + engine::accounting_text(model.accounting);
  const std::string egress = pfe.left == 0 ? ""
                                           : fmt::format(", then {:.1f} us to the port",
                                                         microseconds_of(egress_mean(pfe)));
  text += fmt::format(
      "On a modelled Trio of generation {}: {:.1f} instructions a packet, latency {:.1f} us (p99 "
      "{:.1f} us){}, at most {} threads at once\n",
      model.parameters.generation, pfe.instructions_per_packet, microseconds_of(pfe.latency.mean),
      microseconds_of(pfe.latency.p99), egress, pfe.threads_peak);
  if (pfe.refused_full > 0) {
    text += fmt::format("  {} packets dropped: packet buffer full\n", pfe.refused_full);
  }
  if (pfe.refused_too_long > 0) {
    text += fmt::format("  {} packets and messages dropped: longer than the chip's packets\n",
                        pfe.refused_too_long);
  }
  if (const auto limit = rate_limit(pfe)) {
    text += fmt::format("  Predicted limit of one packet forwarding engine: {:.1f} Mpps ({})\n",
                        limit->packets_per_s / 1e6, limit->resource);
  }
  return text;
}

/// Returns a line for an outcome that has packets, and nothing for others.
std::string outcome_line(std::string_view name, uint64_t packets, uint64_t bytes) {
  if (packets == 0) return "";
  return fmt::format("  {:<24} {:>12} packets {:>16} bytes\n", name, packets, bytes);
}

/// Returns a line for events that have happened, and nothing for others.
std::string event_line(std::string_view name, uint64_t count) {
  return count == 0 ? "" : fmt::format("  {:<24} {:>12} times\n", name, count);
}

/// Culprits that a report shows. The JSON report has all that the program has kept.
constexpr size_t kCulpritLinesMax = 20;

/// Returns a line for each of the first culprits in a program's details, if it has any.
template <class AnyJson>
std::string culprit_lines(const AnyJson& details) {
  const auto found = details.find("culprits");
  if (found == details.end()) return "";
  std::string text;
  for (size_t i = 0; i < std::min(found->size(), kCulpritLinesMax); i++) {
    text += fmt::format("  culprit: {}\n", (*found)[i].at("text").template get<std::string>());
  }
  if (found->size() > kCulpritLinesMax) {
    text += fmt::format("  and {} more culprits: see --json\n", found->size() - kCulpritLinesMax);
  }
  const auto left_out = details.value("culprits_left_out", uint64_t{0});
  if (left_out > 0) {
    text +=
        fmt::format("  and {} earlier culprits that are not kept: see culprits-max\n", left_out);
  }
  return text;
}

}  // namespace

std::optional<RateLimit> rate_limit(const engine::Report& report) {
  if (report.packet_threads == 0) return std::nullopt;
  std::optional<RateLimit> lowest;
  const auto consider = [&](const std::string& resource, double packet_work_s, double timer_share) {
    if (packet_work_s <= 0) return;
    const double rate =
        static_cast<double>(report.packet_threads) * std::max(1 - timer_share, 0.0) / packet_work_s;
    if (!lowest || rate < lowest->packets_per_s) lowest = RateLimit{resource, rate};
  };
  for (const engine::ResourceUse& use : report.resources) {
    consider(use.name, use.packet_work_s, use.timer_share);
  }
  consider("busiest RMW bank", report.bank_packet_work_s, report.bank_timer_share);
  return lowest;
}

Json as_json(const RunReport& report) {
  Json json;
  json["program"] = report.program;
  json["on"] = report.model ? "model" : "live";
  json["packets"] = report.input.packets;
  json["bytes"] = report.input.bytes;
  json["forwarded"] = report.output.forwarded;
  json["dropped"] = report.dropped;
  json["messages"] = report.output.messages;
  json["input"] = {{"cut", report.input.cut},
                   {"headers_cut", report.input.headers_cut},
                   {"too_long", report.input.too_long},
                   {"out_of_order", report.input.out_of_order}};
  json["outcomes"] = Json::object();
  json["events"] = Json::object();
  for (const OutcomeCount& outcome : report.outcomes) {
    if (outcome.is_event) {
      json["events"][outcome.name] = outcome.counter.packets;
      continue;
    }
    json["outcomes"][outcome.name] = {{"packets", outcome.counter.packets},
                                      {"bytes", outcome.counter.bytes}};
  }
  json["seconds"] = report.seconds;
  json["mpps"] =
      report.seconds > 0 ? static_cast<double>(report.input.packets) / report.seconds / 1e6 : 0.0;
  for (const auto& [name, value] : report.details.items()) {
    if (!json.contains(name)) json[name] = value;  // A program replaces none of the report's own.
  }
  if (report.model) json["model"] = model_json(*report.model);
  return json;
}

std::string as_text(const RunReport& report) {
  std::string text =
      fmt::format("{}: {} packets, {} bytes: {} forwarded, {} dropped, {} messages sent\n",
                  report.program, report.input.packets, report.input.bytes, report.output.forwarded,
                  report.dropped, report.output.messages);
  for (const OutcomeCount& outcome : report.outcomes) {
    const uint64_t packets = outcome.counter.packets;
    text += outcome.is_event ? event_line(outcome.name, packets)
                             : outcome_line(outcome.name, packets, outcome.counter.bytes);
  }
  const CaptureFeed::Counts& input = report.input;
  if (input.too_long > 0) {
    text += fmt::format("  {} packets not processed: longer than the machine's packets\n",
                        input.too_long);
  }
  if (input.out_of_order > 0) {
    text += fmt::format("  {} packets processed later than their time: the file is not in order\n",
                        input.out_of_order);
  }
  if (input.cut > input.headers_cut) {
    text += fmt::format("  {} packets filled up with zeros: the capture cut them\n",
                        input.cut - input.headers_cut);
  }
  if (input.headers_cut > 0) {
    text +=
        fmt::format("  {} packets truncated: the capture cut their headers\n", input.headers_cut);
  }
  text += culprit_lines(report.details);
  if (report.model) text += model_text(*report.model);
  return text;
}

std::string live_text(std::string_view program, const nlohmann::json& stats) {
  uint64_t packets = 0;
  for (const auto& core : stats.at("cores")) packets += core.value("packets", uint64_t{0});
  std::string text =
      fmt::format("{}: {} packets: {} forwarded, {} dropped\n", program, packets,
                  stats.value("forwarded", uint64_t{0}), stats.value("dropped", uint64_t{0}));
  for (const auto& [name, counter] : stats.at("outcomes").items()) {
    text += outcome_line(name, counter.at("packets"), counter.at("bytes"));
  }
  for (const auto& [name, count] : stats.at("events").items()) text += event_line(name, count);
  uint64_t refused = 0;
  for (const auto& port : stats.at("ports")) refused += port.value("tx_refused", uint64_t{0});
  if (refused > 0) {
    text += fmt::format("  {} packets lost after the program: a port refused them (tx_refused)\n",
                        refused);
  }
  for (const auto& details : stats.at("details")) text += culprit_lines(details);
  return text;
}

}  // namespace tributary::programs

// SPDX-License-Identifier: Apache-2.0
#include "lab/program_faults/judges.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "apps/flow_key.h"
#include "apps/telemetry/flow_record.h"
#include "io/capture/capture_writer.h"
#include "memory/rmw_bank.h"
#include "programs/flow_records.h"
#include "wire/ipfix.h"

namespace tributary::lab {
namespace {

struct Total {
  uint64_t packets = 0;
  uint64_t octets = 0;
  friend bool operator==(const Total&, const Total&) = default;
  friend bool operator<=(const Total& a, const Total& b) {
    return a.packets <= b.packets && a.octets <= b.octets;
  }
};
using Totals = std::map<std::string, Total>;

/// Returns the fields that name a record's flow, as text.
std::string flow_name(const nlohmann::ordered_json& record) {
  std::string name;
  for (const char* field : {"source", "source_port", "destination", "destination_port", "protocol",
                            "vlan", "customer_vlan"}) {
    name += record.at(field).dump() + " ";
  }
  return name;
}

std::string flow_name(const apps::FlowKey& key) {
  return flow_name(programs::as_json(telemetry::ipfix_flow_of(key)));
}

/// Counts the packets and bytes that each flow sent, except those whose headers are cut.
Totals sent_by_flow(std::span<const WirePacket> packets) {
  Totals totals;
  for (const WirePacket& packet : packets) {
    apps::FlowPacket flow;
    const auto fit = apps::read_captured_flow(packet.bytes, packet.wire_bytes, flow);
    if (fit != apps::FlowFit::kFits) continue;
    Total& total = totals[flow_name(flow.key)];
    total.packets++;
    total.octets += flow.ip_bytes;
  }
  return totals;
}

Totals recorded_by_flow(const std::string& records) {
  Totals totals;
  std::istringstream lines(records);
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::ordered_json::parse(line);
    Total& total = totals[flow_name(record)];
    total.packets += record.at("packets").get<uint64_t>();
    total.octets += record.at("octets").get<uint64_t>();
  }
  return totals;
}

/// The guard's counters of events, which are not outcomes of packets (apps/guard/outcomes.h).
constexpr std::array<std::string_view, 8> kGuardEvents{
    "violation", "detected",     "recovered",         "timed_out",
    "expired",   "source_known", "suspect_untracked", "destination_untracked"};

/// Returns the packets that the program's counters account for.
uint64_t counted_packets(const programs::RunReport& report) {
  uint64_t packets = 0;
  for (const auto& outcome : report.outcomes) {
    const bool is_event =
        report.program == "guard" &&
        std::find(kGuardEvents.begin(), kGuardEvents.end(), outcome.name) != kGuardEvents.end();
    if (!is_event) packets += outcome.counter.packets;
  }
  return packets;
}

const char* machine_of(const MachineRun& run) { return run.end.report.model ? "model" : "live"; }

memory::PacketByteCounter outcome_of(const MachineRun& run, std::string_view name) {
  for (const auto& outcome : run.end.report.outcomes) {
    if (outcome.name == name) return outcome.counter;
  }
  return {};
}

}  // namespace

Result<void> write_capture(std::span<const WirePacket> packets, const std::string& path) {
  auto writer = io::CaptureWriter::open(path);
  if (!writer) return tl::unexpected(writer.error());
  for (const WirePacket& packet : packets) {
    const auto written = writer->write(
        {io::CaptureTime(std::chrono::nanoseconds(packet.at_ns)), packet.bytes, packet.wire_bytes});
    if (!written) return written;
  }
  return writer->finish();
}

uint64_t refused_packets(const MachineRun& run) {
  return outcome_of(run, "store_full").packets + outcome_of(run, "index_full").packets;
}

void judge_outcomes(const MachineRun& run, uint64_t packets, std::vector<std::string>& breaches) {
  const programs::RunReport& report = run.end.report;
  const auto complain = [&](const std::string& text) {
    breaches.push_back(fmt::format("{}: {}", machine_of(run), text));
  };
  if (run.end.problem) complain(run.end.problem->text);
  const uint64_t outcomes = counted_packets(report);
  if (report.input.packets != packets) {
    complain(fmt::format("read {} of {} packets", report.input.packets, packets));
  }
  if (outcomes != packets) complain(fmt::format("{} outcomes of {} packets", outcomes, packets));
  if (report.output.forwarded + report.dropped != packets) {
    complain(fmt::format("{} forwarded and {} dropped of {} packets", report.output.forwarded,
                         report.dropped, packets));
  }
}

void judge_records(const MachineRun& run, std::span<const WirePacket> packets,
                   std::vector<std::string>& breaches) {
  const auto complain = [&](const std::string& text) {
    breaches.push_back(fmt::format("{}: {}", machine_of(run), text));
  };
  const Totals sent = sent_by_flow(packets);
  const Totals recorded = recorded_by_flow(run.records);
  const bool refused = refused_packets(run) > 0;
  Total all;
  for (const auto& [flow, total] : recorded) {
    all.packets += total.packets;
    all.octets += total.octets;
    const auto truth = sent.find(flow);
    const bool is_true =
        truth != sent.end() && (refused ? total <= truth->second : total == truth->second);
    if (!is_true) {
      complain(fmt::format("{}has {} packets, {} bytes in its records and sent {}, {}", flow,
                           total.packets, total.octets,
                           truth == sent.end() ? 0 : truth->second.packets,
                           truth == sent.end() ? 0 : truth->second.octets));
    }
  }
  if (!refused && recorded.size() != sent.size()) {
    complain(fmt::format("{} of {} flows have records", recorded.size(), sent.size()));
  }
  const memory::PacketByteCounter accounted = outcome_of(run, "accounted");
  if (all.packets != accounted.packets || all.octets != accounted.bytes) {
    complain(fmt::format("{} packets in records, {} accounted", all.packets, accounted.packets));
  }
}

}  // namespace tributary::lab

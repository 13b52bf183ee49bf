// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/switchml_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "host/switchml/switchml_protocol.h"
#include "lab/backends/backend.h"
#include "net/packet.h"
#include "wire/switchml.h"

namespace tributary::lab {
namespace {

/// A worker's way to the switch and back.
struct WorkerLink {
  uint64_t bits_per_s = 0;
  uint32_t packet_bytes = 0;  ///< On the wire.
  Duration round_trip;        ///< From a packet to the next one of its slot, hosts included.
};

WorkerLink link_of(const Scenario& scenario, const SwitchmlDesign& design) {
  WorkerLink link;
  link.bits_per_s = std::min(scenario.link.rate_bits_per_s, scenario.host.nic_bits_per_s);
  link.packet_bytes = wire::switchml_bytes(design.elements) + net::kWireOverheadBytes;
  const Duration packet_time =
      from_seconds(link.packet_bytes * 8.0 / static_cast<double>(link.bits_per_s));
  const Duration way = packet_time + scenario.link.propagation + scenario.link.faults.jitter;
  const Duration hosts =
      scenario.host.cost_of_packet(design.elements) * (int64_t{2} * HostSettings::kBurst);
  link.round_trip = way * 2 + design.latency + hosts + packet_time * (int64_t{scenario.train} - 1);
  return link;
}

/// Refuses a time-out that ends before the answer can arrive. Such workers would send more than
/// they receive, without end.
std::optional<Refusal> check_timeout(const Scenario& scenario, const BackendKind& backend) {
  if (!scenario.host.retransmission || scenario.topology == Topology::kFile) return {};
  const double timeout_ms = in_seconds(switchml_config(scenario, *backend.switchml).timeout) * 1e3;
  const double round_trip_ms = in_seconds(link_of(scenario, *backend.switchml).round_trip) * 1e3;
  if (timeout_ms >= round_trip_ms) return {};
  return refused_by_backend(
      backend, "switchml.timeout_ms", fmt::format("{:.6g}", timeout_ms),
      fmt::format("at least {}, the time of a round trip", std::ceil(round_trip_ms * 1e4) / 1e4));
}

}  // namespace

uint32_t switchml_pool(const Scenario& scenario, const SwitchmlDesign& design) {
  const SwitchmlSettings& settings = scenario.switchml;
  if (settings.pool != 0) return settings.pool;
  if (settings.preset != host::SwitchmlPreset::kPaper) {
    host::SwitchmlConfig config;
    apply(settings.preset, config);
    return config.pool;
  }
  const WorkerLink link = link_of(scenario, design);
  return std::min(host::switchml_pool_size(link.bits_per_s, link.round_trip, link.packet_bytes),
                  design.slots_max);
}

host::SwitchmlConfig switchml_config(const Scenario& scenario, const SwitchmlDesign& design) {
  host::SwitchmlConfig config;
  apply(scenario.switchml.preset, config);
  config.elements = design.elements;
  config.switch_times_out = design.times_out;
  config.pool = std::max(switchml_pool(scenario, design) / scenario.train, 1U);
  if (scenario.switchml.timeout != Duration()) config.timeout = scenario.switchml.timeout;
  config.world = scenario.workers;
  config.repair = scenario.host.retransmission;
  config.deadline = scenario.host.deadline;
  return config;
}

host::ProtocolFactory switchml_protocol(const Scenario& scenario, const WorkerSetup& worker) {
  const AggregatorSpec& aggregator = worker.aggregators.front();
  host::SwitchmlConfig config = switchml_config(scenario, aggregator.switchml);
  config.server = aggregator.address;
  config.rank = worker.rank;
  return [config](uint32_t, Instant) { return std::make_unique<host::SwitchmlProtocol>(config); };
}

std::optional<Refusal> check_switchml(const Scenario& scenario, const BackendKind& backend) {
  const SwitchmlDesign& design = *backend.switchml;
  for (const auto& [key, link] :
       {std::pair{"link.reorder", &scenario.link}, std::pair{"fabric.reorder", &scenario.fabric}}) {
    if (link->faults.reorder <= 0) continue;
    return refused_by_backend(backend, key, fmt::format("{}", link->faults.reorder),
                              "0 (SwitchML tells a slot's uses apart by one bit, so it needs links "
                              "that keep their order)");
  }
  if (scenario.workers > wire::kSwitchmlWorkersMax) {
    return refused_by_backend(
        backend, "workers", std::to_string(scenario.workers),
        fmt::format("1 to {}, the bits of SwitchML's bitmap", wire::kSwitchmlWorkersMax));
  }
  const uint32_t pool = switchml_pool(scenario, design);
  if (pool > design.slots_max) {
    return refused_by_backend(backend, "switchml.pool", std::to_string(pool),
                              fmt::format("1 to {}", design.slots_max));
  }
  if (pool % scenario.train != 0) {
    return refused_by_backend(backend, "train", std::to_string(scenario.train),
                              fmt::format("a divisor of the pool of {} slots", pool));
  }
  return check_timeout(scenario, backend);
}

Refusal refused_by_backend(const BackendKind& backend, const char* key, const std::string& value,
                           const std::string& allowed) {
  return {.key = key,
          .text = fmt::format("{}={} is not allowed; allowed with backend={}: {}", key, value,
                              backend.choice.name, allowed)};
}

}  // namespace tributary::lab

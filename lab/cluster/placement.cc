// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "net/packet.h"
#include "plan/assignment.h"

namespace tributary::lab {
namespace {

net::CableSpec& cable_of(net::Topology& topology, const std::string& node) {
  return *std::find_if(
      topology.cables.begin(), topology.cables.end(),
      [&](const net::CableSpec& cable) { return cable.a.node == node || cable.b.node == node; });
}

/// Returns a link inside a host. It loses nothing and its queue never fills.
net::LinkConfig loopback() {
  return {.rate_bits_per_s = kLoopbackBitsPerS,
          .propagation = kLoopbackPropagation,
          .queue_bytes_max = kHostQueueBytesMax};
}

/// Puts a switch between the worker and its cable, and attaches the server to it.
void share_host(ClusterPlan& plan, uint32_t number, uint32_t rank, const std::string& worker) {
  const std::string nic = fmt::format("{}nic-{}", plan.place.prefix, rank);
  net::CableSpec& uplink = cable_of(plan.topology, worker);
  (uplink.a.node == worker ? uplink.a : uplink.b) = {.node = nic, .port = {}};
  plan.topology.nodes.push_back({.name = nic,
                                 .kind = std::string(net::kSwitchKind),
                                 .address = {},
                                 .parameters = {},
                                 .where = "placement"});
  plan.topology.cables.push_back({.a = {.node = worker, .port = 0},
                                  .b = {.node = nic, .port = {}},
                                  .forth = loopback(),
                                  .back = loopback(),
                                  .where = "placement"});
  net::attach(plan.topology, server_name(plan.place, number), kServerKind, nic, loopback());
  plan.host_nodes[rank] = nic;
  plan.nic_bits_per_s[rank] = kLoopbackBitsPerS;
}

/// Returns the rate at which the worker's host would send if its cable were not a slow one. A
/// topology file, which has no slow cables, sets each cable's rate.
uint64_t usual_bits_per_s(const Scenario& scenario, uint32_t rank, uint64_t nic_bits_per_s) {
  if (!scenario.is_slow_link(rank)) return nic_bits_per_s;
  return std::min(scenario.link.rate_bits_per_s, scenario.host.nic_bits_per_s);
}

/// Adds a server host at the worker's switch, with the same NIC and a cable like the worker's; but
/// the cable has the usual rate if the worker's is one of the scenario's slow cables.
/// @param cable The worker's, before share_host() moved it.
void add_host(ClusterPlan& plan, const Scenario& scenario, uint32_t number, uint32_t rank,
              const net::CableSpec& cable) {
  const std::string& worker = plan.place.workers[rank];
  const bool worker_is_a = cable.a.node == worker;
  net::attach(plan.topology, server_name(plan.place, number), kServerKind,
              worker_is_a ? cable.b.node : cable.a.node, {});
  net::CableSpec& own = plan.topology.cables.back();
  const bool server_is_a = own.a.node == server_name(plan.place, number);
  own.forth = worker_is_a == server_is_a ? cable.forth : cable.back;
  own.back = worker_is_a == server_is_a ? cable.back : cable.forth;
  if (!scenario.is_slow_link(rank)) return;
  net::LinkConfig& out = server_is_a ? own.forth : own.back;
  net::LinkConfig& in = server_is_a ? own.back : own.forth;
  out.rate_bits_per_s = usual_bits_per_s(scenario, rank, out.rate_bits_per_s);
  in.rate_bits_per_s = scenario.link.rate_bits_per_s;
}

/// Returns where the back end's servers stand.
AggregatorsSettings places_of(const Scenario& scenario, Placement placement) {
  switch (placement) {
    case Placement::kDedicated:
      return {.colocated = false, .spare = scenario.workers};
    case Placement::kColocated:
      return {.colocated = true, .spare = 0};
    case Placement::kSharded:
      return scenario.aggregators;
    case Placement::kSwitch:
    case Placement::kWorkers:
      break;
  }
  return {.colocated = false, .spare = 0};
}

/// Returns the planner's weights: of the workers' machines, by rank, and then of the spare ones.
std::vector<uint32_t> planned_weights(const Scenario& scenario,
                                      const std::vector<uint64_t>& link_bits_per_s) {
  constexpr double kBitsPerByte = 8;
  const double block_bytes = 1.0 * scenario.gradients * wire::kGradientBytes;
  // A server's CPU works for each contribution and for each result that it returns.
  const double sum_s = 2 * in_seconds(scenario.host.cost_of_packet(scenario.gradients));
  std::vector<plan::Machine> machines;
  for (uint32_t i = 0; i < scenario.workers + scenario.aggregators.spare; i++) {
    const bool works = i < scenario.workers;
    const uint32_t rank = i % scenario.workers;
    const auto link = static_cast<double>(
        works ? link_bits_per_s[rank] : usual_bits_per_s(scenario, rank, link_bits_per_s[rank]));
    machines.push_back({.name = std::to_string(i),
                        .link_bytes_per_s = link / kBitsPerByte,
                        .sum_bytes_per_s = sum_s > 0 ? block_bytes / sum_s : plan::kUnlimited,
                        .worker = works,
                        .aggregator = !works || scenario.aggregators.colocated});
  }
  // Shares depend on the ratio of bytes on the wire to gradients, not on the tensor's size.
  const double wire_bytes =
      block_bytes + wire::TrioMlHeader::kBytes + wire::kExtensionBytes + net::kWireOverheadBytes;
  const auto assigned =
      plan::assign(machines, {.bytes = block_bytes, .wire_ratio = wire_bytes / block_bytes});
  TRIB_ASSERT(assigned.has_value());  // check() refuses scenarios without an aggregator.
  return assigned->weights;
}

}  // namespace

std::string server_name(const JobPlace& place, uint32_t number) {
  return fmt::format("{}server-{}", place.prefix, number);
}

std::vector<uint32_t> place_servers(ClusterPlan& plan, const Scenario& scenario,
                                    const BackendKind& backend) {
  const std::vector<std::string>& workers = plan.place.workers;
  plan.host_nodes = workers;
  const AggregatorsSettings places = places_of(scenario, backend.placement);
  if (!places.colocated && places.spare == 0) return {};
  std::vector<uint32_t> weights(scenario.workers + places.spare, 1);
  if (backend.placement == Placement::kSharded) {
    weights = planned_weights(scenario, plan.nic_bits_per_s);
  }
  std::vector<net::CableSpec> cables;
  for (const std::string& worker : workers) cables.push_back(cable_of(plan.topology, worker));

  std::vector<uint32_t> placed;
  for (uint32_t i = places.colocated ? 0 : scenario.workers; i < weights.size(); i++) {
    if (weights[i] == 0) continue;
    const auto number = static_cast<uint32_t>(placed.size());
    const uint32_t rank = i % scenario.workers;
    if (i < scenario.workers) {
      share_host(plan, number, rank, workers[rank]);
    } else {
      add_host(plan, scenario, number, rank, cables[rank]);
    }
    placed.push_back(weights[i]);
  }
  return placed;
}

}  // namespace tributary::lab

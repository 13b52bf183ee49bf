// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/placement.h"

#include <fmt/format.h>

#include <algorithm>

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

std::string server_name(uint32_t rank) { return fmt::format("server-{}", rank); }

/// Puts a switch between the worker and its cable, and attaches the server to it.
void share_host(ClusterPlan& plan, uint32_t rank, const std::string& worker) {
  const std::string nic = fmt::format("nic-{}", rank);
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
  net::attach(plan.topology, server_name(rank), kServerKind, nic, loopback());
  plan.host_nodes[rank] = nic;
  plan.nic_bits_per_s[rank] = kLoopbackBitsPerS;
}

/// Adds a server host at the worker's switch, with the same cable and NIC.
void add_host(ClusterPlan& plan, uint32_t rank, const std::string& worker) {
  const net::CableSpec cable = cable_of(plan.topology, worker);
  const bool worker_is_a = cable.a.node == worker;
  net::attach(plan.topology, server_name(rank), kServerKind,
              worker_is_a ? cable.b.node : cable.a.node, {});
  net::CableSpec& own = plan.topology.cables.back();
  const bool server_is_a = own.a.node == server_name(rank);
  own.forth = worker_is_a == server_is_a ? cable.forth : cable.back;
  own.back = worker_is_a == server_is_a ? cable.back : cable.forth;
}

}  // namespace

void place_servers(ClusterPlan& plan, const Scenario& scenario, Placement placement) {
  std::vector<std::string> workers;
  for (const net::NodeSpec& node : plan.topology.nodes) {
    if (node.kind == kWorkerKind) workers.push_back(node.name);
  }
  plan.host_nodes = workers;
  if (placement != Placement::kDedicated && placement != Placement::kColocated) return;
  for (uint32_t rank = 0; rank < scenario.workers; rank++) {
    if (placement == Placement::kDedicated) {
      add_host(plan, rank, workers[rank]);
    } else {
      share_host(plan, rank, workers[rank]);
    }
  }
}

}  // namespace tributary::lab

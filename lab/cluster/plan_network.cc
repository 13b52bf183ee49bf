// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/plan_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/key_table.h"
#include "net/topology_file.h"

namespace tributary::lab {

std::vector<const net::NodeSpec*> nodes_of(const net::Topology& topology, const char* kind) {
  std::vector<const net::NodeSpec*> found;
  for (const net::NodeSpec& node : topology.nodes) {
    if (node.kind == kind) found.push_back(&node);
  }
  return found;
}

std::string neighbour_of(const net::Topology& topology, const std::string& worker) {
  for (const net::CableSpec& cable : topology.cables) {
    if (cable.a.node == worker) return cable.b.node;
    if (cable.b.node == worker) return cable.a.node;
  }
  return {};
}

namespace {

Result<net::Topology> shape_of(const Scenario& scenario, const BackendKind& backend, bool tree) {
  if (scenario.topology == Topology::kFile) return net::read_topology_file(scenario.topology_file);
  const net::LinkConfig link = scenario.link;
  const net::LinkConfig fabric = scenario.fabric;
  const uint32_t workers_per_leaf = scenario.workers / scenario.leaves;
  const bool switch_adds = backend.placement == Placement::kSwitch;
  const std::string plain(net::kSwitchKind);
  if (tree) {
    const net::TwoLevelShape shape{.leaves = scenario.leaves,
                                   .workers_per_leaf = workers_per_leaf,
                                   .worker_kind = kWorkerKind,
                                   .leaf_kind = switch_adds ? kAggregatorKind : plain,
                                   .top_kind = switch_adds ? kTopKind : plain,
                                   .link = link,
                                   .uplink = fabric};
    return scenario.topology == Topology::kChassis ? net::chassis(shape) : net::two_level(shape);
  }
  if (scenario.topology != Topology::kLeafSpine) {
    return net::star({.workers = scenario.workers,
                      .worker_kind = kWorkerKind,
                      .switch_kind = switch_adds ? kAggregatorKind : plain,
                      .link = link});
  }
  net::Topology topology = net::leaf_spine({.leaves = scenario.leaves,
                                            .workers_per_leaf = workers_per_leaf,
                                            .spines = scenario.spines,
                                            .worker_kind = kWorkerKind,
                                            .link = link,
                                            .uplink = fabric});
  if (switch_adds) net::attach(topology, "aggregator", kAggregatorKind, "leaf-0", fabric);
  return topology;
}

/// Gives slow cables their rate, in both directions.
void set_slow_links(net::Topology& topology, const Scenario& scenario) {
  const auto workers = nodes_of(topology, kWorkerKind);
  for (const uint32_t rank : scenario.slow_links.workers) {
    const std::string& name = workers[rank]->name;
    for (net::CableSpec& cable : topology.cables) {
      if (cable.a.node != name && cable.b.node != name) continue;
      cable.forth.rate_bits_per_s = scenario.slow_links.rate_bits_per_s;
      cable.back.rate_bits_per_s = scenario.slow_links.rate_bits_per_s;
    }
  }
}

/// Gives the uplinks of slow racks their rate, in both directions. An uplink joins a leaf to the
/// level above.
void set_slow_uplinks(net::Topology& topology, const Scenario& scenario) {
  const char* const leaf = scenario.topology == Topology::kChassis ? "pfe" : "leaf";
  const auto is_above = [](const std::string& node) {
    return node == "top" || node.starts_with("spine-");
  };
  for (const uint32_t rack : scenario.slow_uplinks.racks) {
    const std::string name = fmt::format("{}-{}", leaf, rack);
    for (net::CableSpec& cable : topology.cables) {
      if (cable.a.node != name || !is_above(cable.b.node)) continue;
      cable.forth.rate_bits_per_s = scenario.slow_uplinks.rate_bits_per_s;
      cable.back.rate_bits_per_s = scenario.slow_uplinks.rate_bits_per_s;
    }
  }
}

/// Refuses workers without a cable, beside which no server can stand.
Result<void> check_cables(const net::Topology& topology) {
  for (const net::NodeSpec* worker : nodes_of(topology, kWorkerKind)) {
    if (!neighbour_of(topology, worker->name).empty()) continue;
    return failure(
        fmt::format("{}: {} has no cable; allowed: one to a switch", worker->where, worker->name));
  }
  return {};
}

/// Refuses cables of a file that lose packets which nobody repairs. The scenario's own links were
/// checked with it.
Result<void> check_losses(const net::Topology& topology, const Scenario& scenario) {
  if (scenario.topology != Topology::kFile || scenario.host.retransmission) return {};
  for (const net::CableSpec& cable : topology.cables) {
    for (const net::LinkConfig* link : {&cable.forth, &cable.back}) {
      if (link->faults.loss <= 0 && link->faults.corrupt <= 0) continue;
      return failure(
          fmt::format("{}: the cable loses packets; allowed with host.retransmission=false: loss=0 "
                      "and corrupt=0",
                      cable.where));
    }
  }
  return {};
}

/// Refuses workers that are not cabled to the one aggregator or have no IPv4 address, and links of
/// a file that reorder packets. The back end checks the scenario's own links.
Result<void> check_own_ports(const net::Topology& topology, const BackendKind& backend) {
  const std::string& aggregator = nodes_of(topology, kAggregatorKind).at(0)->name;
  for (const net::CableSpec& cable : topology.cables) {
    if (cable.forth.faults.reorder <= 0 && cable.back.faults.reorder <= 0) continue;
    return failure(
        fmt::format("{}: the cable from {} to {} changes the order of packets; allowed with "
                    "backend={}: reorder=0",
                    cable.where, cable.a.node, cable.b.node, backend.choice.name));
  }
  for (const net::NodeSpec* worker : nodes_of(topology, kWorkerKind)) {
    if (!worker->address.is_ipv4()) {
      return failure(fmt::format("{}: {} has the address {}; allowed with backend={}: IPv4",
                                 worker->where, worker->name, worker->address.to_string(),
                                 backend.choice.name));
    }
    const std::string neighbour = neighbour_of(topology, worker->name);
    if (neighbour == aggregator) continue;
    return failure(
        fmt::format("topology: {} is cabled to '{}'; allowed with backend={}: '{}', each "
                    "worker at a port of its own",
                    worker->name, neighbour, backend.choice.name, aggregator));
  }
  return {};
}

/// Refuses other kinds of nodes. A job adds its servers and sources of background traffic itself.
Result<void> check_kinds(const net::Topology& topology) {
  const std::array<std::string, 4> kinds{std::string(net::kSwitchKind), kWorkerKind,
                                         kAggregatorKind, kTopKind};
  for (const net::NodeSpec& node : topology.nodes) {
    if (std::ranges::find(kinds, node.kind) != kinds.end()) continue;
    return failure(fmt::format("{}: node {}: {}", node.where, node.name,
                               unknown_name("kind", node.kind, kinds)));
  }
  return {};
}

/// Refuses a topology, generated or from a file, whose nodes do not fit the scenario.
Result<void> check_nodes(const net::Topology& topology, const Scenario& scenario,
                         const BackendKind& backend) {
  const auto refuse = [&](const char* kind, size_t count, const std::string& allowed) {
    return failure(fmt::format("topology_file={}: {} nodes of kind {} are not allowed; allowed: {}",
                               scenario.topology_file, count, kind, allowed));
  };
  if (auto good = check_kinds(topology); !good) return good;
  const size_t workers = nodes_of(topology, kWorkerKind).size();
  if (workers != scenario.workers) {
    return refuse(kWorkerKind, workers, fmt::format("{}, as workers says", scenario.workers));
  }
  const size_t tops = nodes_of(topology, kTopKind).size();
  if (tops > (backend.hierarchical ? 1U : 0U)) {
    return refuse(kTopKind, tops,
                  backend.hierarchical ? "at most 1"
                                       : fmt::format("none with backend={}", backend.choice.name));
  }
  const size_t aggregators = nodes_of(topology, kAggregatorKind).size();
  if (backend.placement != Placement::kSwitch) {
    if (aggregators == 0) return check_cables(topology);
    return refuse(kAggregatorKind, aggregators,
                  fmt::format("none with backend={}", backend.choice.name));
  }
  if (aggregators == 0 || (aggregators > 1 && tops == 0)) {
    return refuse(kAggregatorKind, aggregators,
                  fmt::format("1, or several below one of kind {}", kTopKind));
  }
  return backend.own_ports ? check_own_ports(topology, backend) : Result<void>();
}

}  // namespace

Result<net::Topology> plan_network(const Scenario& scenario, const BackendKind& backend,
                                   bool tree) {
  auto topology = shape_of(scenario, backend, tree);
  if (!topology) return topology;
  if (const auto good = check_nodes(*topology, scenario, backend); !good) {
    return tl::unexpected(good.error());
  }
  if (const auto good = check_losses(*topology, scenario); !good) {
    return tl::unexpected(good.error());
  }
  set_slow_links(*topology, scenario);
  set_slow_uplinks(*topology, scenario);
  return topology;
}

}  // namespace tributary::lab

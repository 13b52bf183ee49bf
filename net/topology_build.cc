// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <set>

#include "net/topology.h"

namespace tributary::net {
namespace {

/// The ports that cables name, and the lowest free port of each node for cables that name none.
class Ports {
 public:
  explicit Ports(const Topology& topology) {
    for (const CableSpec& cable : topology.cables) {
      for (const CableEnd* end : {&cable.a, &cable.b}) {
        if (end->port) taken_[end->node].insert(*end->port);
      }
    }
  }
  [[nodiscard]] uint32_t of(const CableEnd& end) {
    if (end.port) return *end.port;
    std::set<uint32_t>& taken = taken_[end.node];
    uint32_t& port = lowest_[end.node];
    while (!taken.insert(port).second) port++;
    return port;
  }

 private:
  std::map<std::string_view, std::set<uint32_t>> taken_;
  std::map<std::string_view, uint32_t> lowest_;  ///< Every port below is taken.
};

Result<void> make_nodes(const Topology& topology, Network& network, const NodeFactory& factory,
                        BuiltNetwork& built) {
  for (const NodeSpec& spec : topology.nodes) {
    if (spec.kind == kSwitchKind) {
      built.switches.push_back(std::make_unique<Forwarder>(network, spec.name));
      built.stations.push_back(built.switches.back()->station());
    } else {
      const Result<BuiltNode> made = factory(spec);
      if (!made) {
        return failure(fmt::format("{}: node '{}': {}", spec.where, spec.name, made.error().text));
      }
      built.stations.push_back({made->id, {}, made->table, made->forwards});
    }
    if (spec.address.is_set()) built.stations.back().addresses.push_back(spec.address);
    built.nodes.push_back(built.stations.back().node);
  }
  return {};
}

Result<void> lay_cables(const Topology& topology, Network& network,
                        const std::map<std::string_view, NodeId>& nodes, BuiltNetwork& built) {
  Ports ports(topology);
  for (const CableSpec& cable : topology.cables) {
    const auto link =
        network.connect(nodes.at(cable.a.node), ports.of(cable.a), nodes.at(cable.b.node),
                        ports.of(cable.b), cable.forth, cable.back);
    if (!link) return failure(fmt::format("{}: {}", cable.where, link.error().text));
    built.cables.push_back(*link);
  }
  return {};
}

/// Refuses a topology with an unreachable node, and names the place of that node.
Result<void> check_reach(const Topology& topology, const Network& network,
                         const BuiltNetwork& built) {
  const auto pair = find_unreachable(network, built.stations);
  if (!pair) return {};
  // Of the two, the node with fewer cables more likely lacks one.
  const auto cables_of = [&](uint32_t index) {
    uint32_t count = 0;
    for (const CableSpec& cable : topology.cables) {
      for (const CableEnd* end : {&cable.a, &cable.b}) {
        if (end->node == topology.nodes[index].name) count++;
      }
    }
    return count;
  };
  auto [from, to] = *pair;
  if (cables_of(from) < cables_of(to)) std::swap(from, to);
  return failure(
      fmt::format("{}: node '{}' is not reachable from '{}'; allowed: a path of cables "
                  "through nodes that forward",
                  topology.nodes[to].where, topology.nodes[to].name, topology.nodes[from].name));
}

}  // namespace

Result<BuiltNetwork> build(const Topology& topology, Network& network, const NodeFactory& factory) {
  const auto refused = [](const Result<void>& result) { return failure(result.error().text); };
  if (auto good = check(topology); !good) return refused(good);
  BuiltNetwork built;
  if (auto good = make_nodes(topology, network, factory, built); !good) return refused(good);
  std::map<std::string_view, NodeId> nodes;
  for (size_t i = 0; i < topology.nodes.size(); i++) {
    nodes.emplace(topology.nodes[i].name, built.nodes[i]);
  }
  if (auto good = lay_cables(topology, network, nodes, built); !good) return refused(good);
  if (auto good = check_reach(topology, network, built); !good) return refused(good);
  if (auto good = route_shortest(network, built.stations); !good) return refused(good);
  for (const GroupSpec& spec : topology.groups) {
    Group group{spec.address, {}, {}};
    for (const std::string& name : spec.receivers) group.receivers.push_back(nodes.at(name));
    for (const std::string& name : spec.senders) group.senders.push_back(nodes.at(name));
    if (auto good = route_group(network, built.stations, group); !good) {
      return failure(fmt::format("{}: {}", spec.where, good.error().text));
    }
  }
  return built;
}

}  // namespace tributary::net

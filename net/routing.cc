// SPDX-License-Identifier: Apache-2.0
#include "net/routing.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "net/digest.h"

namespace tributary::net {
namespace {

constexpr uint32_t kUnreached = UINT32_MAX;

struct Neighbour {
  NodeId node;
  uint32_t port;  ///< On the node whose neighbour this is.
};

/// The network as a graph: the neighbours of each node in the order of its links.
struct Graph {
  Graph(const Network& network, std::span<const Station> stations)
      : neighbours(network.node_count()), station_of(network.node_count()) {
    for (LinkId link = 0; link < network.link_count(); link++) {
      const LinkEnds& ends = network.ends(link);
      neighbours[ends.from_node].push_back({ends.to_node, ends.from_port});
    }
    for (const Station& station : stations) station_of.at(station.node) = &station;
  }
  [[nodiscard]] bool forwards(NodeId node) const {
    return station_of[node] != nullptr && station_of[node]->forwards;
  }
  /// Returns the number of cables from each node to `target`, through nodes that forward.
  [[nodiscard]] std::vector<uint32_t> distances_to(NodeId target) const {
    std::vector<uint32_t> distance(neighbours.size(), kUnreached);
    std::vector<NodeId> queue{target};
    distance[target] = 0;
    for (size_t i = 0; i < queue.size(); i++) {
      const NodeId node = queue[i];
      if (node != target && !forwards(node)) continue;
      for (const Neighbour& next : neighbours[node]) {
        if (distance[next.node] != kUnreached) continue;
        distance[next.node] = distance[node] + 1;
        queue.push_back(next.node);
      }
    }
    return distance;
  }
  /// Returns whether `next` is one cable nearer to `target` than `node`.
  [[nodiscard]] bool is_nearer(const std::vector<uint32_t>& distance, NodeId node,
                               const Neighbour& next, NodeId target) const {
    return distance[next.node] < distance[node] && (next.node == target || forwards(next.node));
  }
  std::vector<std::vector<Neighbour>> neighbours;
  std::vector<const Station*> station_of;  ///< Null: no station.
};

/// Sets the routes of all stations to one of them.
void route_to(const Graph& graph, std::span<const Station> stations, const Station& target) {
  const std::vector<uint32_t> distance = graph.distances_to(target.node);
  std::vector<uint32_t> ports;
  for (const Station& station : stations) {
    if (station.node == target.node) continue;
    if (station.table == nullptr) continue;
    ports.clear();
    for (const Neighbour& next : graph.neighbours[station.node]) {
      if (graph.is_nearer(distance, station.node, next, target.node)) ports.push_back(next.port);
    }
    for (const Endpoint& address : target.addresses) station.table->set_route(address, ports);
  }
}

Result<void> check_addresses(const Network& network, std::span<const Station> stations) {
  std::map<std::array<uint8_t, 16>, NodeId> owners;
  for (const Station& station : stations) {
    for (const Endpoint& address : station.addresses) {
      const auto [found, is_new] = owners.emplace(address.address, station.node);
      if (is_new) continue;
      return failure(fmt::format(
          "'{}' and '{}' both have the address of {}; allowed: one node "
          "an address",
          network.node_name(found->second), network.node_name(station.node), address.to_string()));
    }
  }
  return {};
}

/// The tree of a group during its construction.
struct Tree {
  explicit Tree(size_t node_count) : parent(node_count), receivers_below(node_count) {}
  std::vector<std::optional<Neighbour>> parent;  ///< Toward the root; none at it and outside.
  std::vector<uint32_t> receivers_below;         ///< In the node's subtree, including itself.
};

/// Returns the next node on `node`'s path to the root. The group's address picks among equals.
Neighbour step_to_root(const Graph& graph, const std::vector<uint32_t>& distance, NodeId node,
                       NodeId root, uint64_t group_hash) {
  std::vector<Neighbour> nearer;
  for (const Neighbour& next : graph.neighbours[node]) {
    if (graph.is_nearer(distance, node, next, root)) nearer.push_back(next);
  }
  return nearer[hash_mix(group_hash + node) % nearer.size()];
}

/// Builds the tree of the paths from all members to the first receiver.
Result<Tree> grow_tree(const Network& network, const Graph& graph, const Group& group) {
  std::vector<NodeId> members = group.receivers;
  members.insert(members.end(), group.senders.begin(), group.senders.end());
  const NodeId root = members.front();
  const std::vector<uint32_t> distance = graph.distances_to(root);
  const uint64_t group_hash = hash_bytes(std::as_bytes(std::span(group.address.address)));
  Tree tree(graph.neighbours.size());
  for (size_t i = 0; i < members.size(); i++) {
    const NodeId member = members[i];
    if (distance[member] == kUnreached) {
      return failure(fmt::format("'{}' is not reachable from '{}', both of group {}",
                                 network.node_name(member), network.node_name(root),
                                 group.address.to_string()));
    }
    const uint32_t receives = i < group.receivers.size() ? 1 : 0;
    for (NodeId node = member; node != root; node = tree.parent[node]->node) {
      tree.receivers_below[node] += receives;
      if (!tree.parent[node]) {
        tree.parent[node] = step_to_root(graph, distance, node, root, group_hash);
      }
    }
    tree.receivers_below[root] += receives;
  }
  return tree;
}

/// Returns each node's ports for the group's packets: toward every side with receivers.
std::vector<std::vector<uint32_t>> ports_of(const Network& network, const Tree& tree,
                                            size_t receiver_count) {
  std::vector<std::vector<uint32_t>> ports(tree.parent.size());
  for (NodeId node = 0; node < tree.parent.size(); node++) {
    if (!tree.parent[node]) continue;
    const auto [parent, port] = *tree.parent[node];
    const uint32_t port_back = network.ends(*network.link_at(node, port)).to_port;
    if (tree.receivers_below[node] > 0) ports[parent].push_back(port_back);
    if (tree.receivers_below[node] < receiver_count) ports[node].push_back(port);
  }
  return ports;
}

}  // namespace

std::optional<std::pair<uint32_t, uint32_t>> find_unreachable(const Network& network,
                                                              std::span<const Station> stations) {
  const Graph graph(network, stations);
  for (uint32_t to = 0; to < stations.size(); to++) {
    if (stations[to].addresses.empty()) continue;
    const std::vector<uint32_t> distance = graph.distances_to(stations[to].node);
    for (uint32_t from = 0; from < stations.size(); from++) {
      if (distance[stations[from].node] == kUnreached) return std::pair(from, to);
    }
  }
  return std::nullopt;
}

Result<void> route_shortest(const Network& network, std::span<const Station> stations) {
  if (auto good = check_addresses(network, stations); !good) return good;
  if (const auto pair = find_unreachable(network, stations)) {
    return failure(
        fmt::format("'{}' is not reachable from '{}'; allowed: a path of cables through "
                    "nodes that forward",
                    network.node_name(stations[pair->second].node),
                    network.node_name(stations[pair->first].node)));
  }
  const auto book = std::make_shared<AddressBook>();
  for (const Station& station : stations) {
    if (station.table != nullptr) station.table->clear(book);
  }
  const Graph graph(network, stations);
  for (const Station& target : stations) {
    if (!target.addresses.empty()) route_to(graph, stations, target);
  }
  return {};
}

Result<void> route_group(const Network& network, std::span<const Station> stations,
                         const Group& group) {
  if (group.receivers.empty()) {
    return failure(
        fmt::format("group {} has no receiver; allowed: one or more", group.address.to_string()));
  }
  const Graph graph(network, stations);
  const auto tree = grow_tree(network, graph, group);
  if (!tree) return failure(tree.error().text);
  const auto ports = ports_of(network, *tree, group.receivers.size());
  for (const Station& station : stations) {
    const bool on_tree = tree->parent[station.node] || station.node == group.receivers.front();
    if (on_tree && station.table != nullptr) {
      station.table->set_group(group.address, ports[station.node]);
    }
  }
  return {};
}

}  // namespace tributary::net

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The layout of a network as plain data (nodes, cables and groups), generators for the usual
/// shapes, and the network built from them.
///
/// Model:   A node has a name, a kind and, unless it is a plain switch, an address. Cables join
///          ports; by default an end takes the lowest free port.
/// Names:   Generated nodes are worker-0 …, leaf-0 … (pfe-0 … in a chassis), top, spine-0 …; a
///          star's middle is `switch`. Workers have addresses from 10.0.0.1, others from 10.1.0.1.
/// Threads: One.
/// Errors:  Before the run, one line with the place of the wrong part in its file, its key or name,
///          and the allowed values.
/// Tests:   tests/net/topology_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "base/key_table.h"
#include "base/result.h"
#include "net/forwarder.h"
#include "net/network.h"
#include "net/routing.h"

namespace tributary::net {

/// The kind that build() makes itself: a Forwarder. The caller's factory makes all other kinds, so
/// one network can hold several kinds of switches and hosts.
inline constexpr std::string_view kSwitchKind = "switch";

struct NodeSpec {
  std::string name;  ///< Not empty; without '.' and '>', which separate parts of link names.
  std::string kind;
  Endpoint address;                    ///< Not set: none (plain switches).
  std::vector<WrittenKey> parameters;  ///< Keys for the factory; a KeyTable reads them.
  std::string where;                   ///< "topology.toml:12", or the generator's name.
};

struct CableEnd {
  std::string node;
  std::optional<uint32_t> port;
};

struct CableSpec {
  CableEnd a;
  CableEnd b;
  LinkConfig forth;  ///< From a to b.
  LinkConfig back;
  std::string where;
};

struct GroupSpec {
  Endpoint address;  ///< Multicast.
  std::vector<std::string> receivers;
  std::vector<std::string> senders;
  std::string where;
};

struct Topology {
  std::vector<NodeSpec> nodes;
  std::vector<CableSpec> cables;
  std::vector<GroupSpec> groups;
};

// --- The usual shapes ---------------------------------------------------------------------------

/// All workers at one switch.
struct StarShape {
  uint32_t workers = 6;
  std::string worker_kind = "worker";
  std::string switch_kind{kSwitchKind};
  LinkConfig link{};
};
[[nodiscard]] Topology star(const StarShape& shape);

/// Leaves with workers, and one node above them.
struct TwoLevelShape {
  uint32_t leaves = 2;
  uint32_t workers_per_leaf = 3;
  std::string worker_kind = "worker";
  std::string leaf_kind{kSwitchKind};
  std::string top_kind{kSwitchKind};
  LinkConfig link{};    ///< Between worker and leaf.
  LinkConfig uplink{};  ///< Between leaf and top.
};
[[nodiscard]] Topology two_level(const TwoLevelShape& shape);
/// Returns two levels inside one chassis (Trio paper Figure 11b): the leaves are its PFEs, the
/// uplinks its fabric.
[[nodiscard]] Topology chassis(const TwoLevelShape& shape);

/// Leaves with workers; each leaf has a cable to each spine.
struct LeafSpineShape {
  uint32_t leaves = 24;
  uint32_t workers_per_leaf = 24;
  uint32_t spines = 12;
  std::string worker_kind = "worker";
  std::string leaf_kind{kSwitchKind};
  std::string spine_kind{kSwitchKind};
  LinkConfig link{};
  LinkConfig uplink{};
};
[[nodiscard]] Topology leaf_spine(const LeafSpineShape& shape);

/// Adds a node of any kind with the next free address of 10.1.0.0/16, cabled to `at`.
void attach(Topology& topology, const std::string& name, const std::string& kind,
            const std::string& at, const LinkConfig& link);

/// Checks a topology. Refuses:
///
/// - a topology without nodes
/// - a name that is taken or not allowed
/// - an address that is taken, a node address that is multicast, a group address that is not
/// - a cable or group with an unknown node
/// - a port used twice or too high, and a cable to itself
/// - links that check(LinkConfig) refuses
[[nodiscard]] Result<void> check(const Topology& topology);

// --- From data to a network ---------------------------------------------------------------------

/// A factory's result for a NodeSpec. The node has added itself to the network under its name.
struct BuiltNode {
  NodeId id = 0;
  RoutingTable* table = nullptr;  ///< Filled with routes; null for a host with one port.
  bool forwards = false;          ///< Whether packets for others may pass through it.
};

/// Makes a node of any kind but "switch", and keeps it. An Error states the wrong kind or parameter
/// without its place.
using NodeFactory = std::function<Result<BuiltNode>(const NodeSpec& spec)>;

/// The parts of a network that build() has made. It must live until the network's last event.
struct BuiltNetwork {
  std::vector<std::unique_ptr<Forwarder>> switches;
  std::vector<NodeId> nodes;      ///< Shape [topology.nodes].
  std::vector<LinkId> cables;     ///< Shape [topology.cables]: the link from a to b.
  std::vector<Station> stations;  ///< Shape [topology.nodes].
};

/// Makes nodes, cables and routes (shortest paths, net/routing.h) in an empty network. Refuses
/// errors of check() and of the factory, and an address that another node cannot reach.
[[nodiscard]] Result<BuiltNetwork> build(const Topology& topology, Network& network,
                                         const NodeFactory& factory);

}  // namespace tributary::net

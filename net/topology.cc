// SPDX-License-Identifier: Apache-2.0
#include "net/topology.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <utility>

#include "wire/headers.h"

namespace tributary::net {
namespace {

constexpr uint32_t kWorkerAddresses = 0x0a000001;  // 10.0.0.1
constexpr uint32_t kOtherAddresses = 0x0a010001;   // 10.1.0.1

std::string numbered(std::string_view name, uint32_t number) {
  return fmt::format("{}-{}", name, number);
}

/// Builds the nodes of a shape.
class Builder {
 public:
  explicit Builder(const char* shape) : where_(shape) {}

  void add_worker(uint32_t number, const std::string& kind) {
    add(numbered("worker", number), kind,
        Endpoint::ipv4(kWorkerAddresses + number, wire::kTrioMlPort));
  }
  void add_other(std::string name, const std::string& kind) {
    Endpoint address;
    if (kind != kSwitchKind) {
      address = Endpoint::ipv4(kOtherAddresses + others_++, wire::kTrioMlPort);
    }
    add(std::move(name), kind, address);
  }
  void cable(std::string a, uint32_t port_a, std::string b, uint32_t port_b,
             const LinkConfig& link) {
    topology_.cables.push_back(
        {{std::move(a), port_a}, {std::move(b), port_b}, link, link, where_});
  }
  [[nodiscard]] Topology take() { return std::move(topology_); }

 private:
  void add(std::string name, const std::string& kind, const Endpoint& address) {
    topology_.nodes.push_back({std::move(name), kind, address, {}, where_});
  }
  std::string where_;
  Topology topology_;
  uint32_t others_ = 0;
};

Topology leaves_under_top(const TwoLevelShape& shape, const char* name, const char* leaf_name) {
  Builder builder(name);
  builder.add_other("top", shape.top_kind);
  for (uint32_t leaf = 0; leaf < shape.leaves; leaf++) {
    const std::string leaf_is = numbered(leaf_name, leaf);
    builder.add_other(leaf_is, shape.leaf_kind);
    builder.cable(leaf_is, shape.workers_per_leaf, "top", leaf, shape.uplink);
    for (uint32_t i = 0; i < shape.workers_per_leaf; i++) {
      const uint32_t worker = leaf * shape.workers_per_leaf + i;
      builder.add_worker(worker, shape.worker_kind);
      builder.cable(numbered("worker", worker), 0, leaf_is, i, shape.link);
    }
  }
  return builder.take();
}

// --- Checks ---

Result<void> check_name(const NodeSpec& node) {
  if (!node.name.empty() && node.name.find_first_of(".>") == std::string::npos) return {};
  return failure(
      fmt::format("{}: name='{}' is not allowed; allowed: not empty, without '.' and '>'",
                  node.where, node.name));
}

Result<void> check_nodes(const Topology& topology) {
  std::map<std::string_view, const NodeSpec*> names;
  std::map<std::array<uint8_t, 16>, const NodeSpec*> addresses;
  for (const NodeSpec& node : topology.nodes) {
    if (auto good = check_name(node); !good) return good;
    if (!names.emplace(node.name, &node).second) {
      return failure(
          fmt::format("{}: name='{}' is taken; allowed: a name once", node.where, node.name));
    }
    if (!node.address.is_set()) continue;
    if (node.address.is_multicast()) {
      return failure(fmt::format("{}: address={} of '{}' is multicast; allowed: a unicast address",
                                 node.where, node.address.to_string(), node.name));
    }
    const auto [other, is_new] = addresses.emplace(node.address.address, &node);
    if (is_new) continue;
    return failure(fmt::format("{}: address={} of '{}' is taken by '{}'; allowed: an address once",
                               node.where, node.address.to_string(), node.name,
                               other->second->name));
  }
  return {};
}

using Names = std::set<std::string_view>;

Result<void> check_exists(const Names& names, const std::string& where, std::string_view key,
                          const std::string& name) {
  if (names.contains(name)) return {};
  return failure(fmt::format(
      "{}: {}='{}' is not a node; allowed: a name of a [[node]] or of the shape's nodes", where,
      key, name));
}

Result<void> check_cables(const Topology& topology, const Names& names) {
  std::map<std::pair<std::string, uint32_t>, const CableSpec*> ports;
  for (const CableSpec& cable : topology.cables) {
    if (cable.a.node == cable.b.node) {
      return failure(fmt::format("{}: b='{}' is both ends of the cable; allowed: another node",
                                 cable.where, cable.b.node));
    }
    for (const auto& [key, end] : {std::pair("a", &cable.a), std::pair("b", &cable.b)}) {
      if (auto good = check_exists(names, cable.where, key, end->node); !good) return good;
      if (!end->port) continue;
      if (*end->port > kPortMax) {
        return failure(fmt::format("{}: {}='{}.{}' is out of range; allowed: ports 0 to {}",
                                   cable.where, key, end->node, *end->port, kPortMax));
      }
      const auto [other, is_new] = ports.emplace(std::pair(end->node, *end->port), &cable);
      if (is_new) continue;
      return failure(
          fmt::format("{}: {}='{}.{}' has a cable already ({}); allowed: one cable a port",
                      cable.where, key, end->node, *end->port, other->second->where));
    }
    for (const LinkConfig* link : {&cable.forth, &cable.back}) {
      if (auto good = check(*link); !good) {
        return failure(fmt::format("{}: {}", cable.where, good.error().text));
      }
    }
  }
  return {};
}

Result<void> check_groups(const Topology& topology, const Names& names) {
  for (const GroupSpec& group : topology.groups) {
    if (!group.address.is_multicast()) {
      return failure(
          fmt::format("{}: address={} is not multicast; allowed: 224.0.0.0/4 or ff00::/8",
                      group.where, group.address.to_string()));
    }
    if (group.receivers.empty()) {
      return failure(fmt::format("{}: receivers is empty; allowed: one node or more", group.where));
    }
    for (const auto& [key, members] :
         {std::pair("receivers", &group.receivers), std::pair("senders", &group.senders)}) {
      for (const std::string& member : *members) {
        if (auto good = check_exists(names, group.where, key, member); !good) return good;
      }
    }
  }
  return {};
}

}  // namespace

Topology star(const StarShape& shape) {
  Builder builder("star");
  builder.add_other("switch", shape.switch_kind);
  for (uint32_t worker = 0; worker < shape.workers; worker++) {
    builder.add_worker(worker, shape.worker_kind);
    builder.cable(numbered("worker", worker), 0, "switch", worker, shape.link);
  }
  return builder.take();
}

Topology two_level(const TwoLevelShape& shape) {
  return leaves_under_top(shape, "two-level", "leaf");
}

Topology chassis(const TwoLevelShape& shape) { return leaves_under_top(shape, "chassis", "pfe"); }

Topology leaf_spine(const LeafSpineShape& shape) {
  Builder builder("leaf-spine");
  for (uint32_t spine = 0; spine < shape.spines; spine++) {
    builder.add_other(numbered("spine", spine), shape.spine_kind);
  }
  for (uint32_t leaf = 0; leaf < shape.leaves; leaf++) {
    const std::string leaf_is = numbered("leaf", leaf);
    builder.add_other(leaf_is, shape.leaf_kind);
    for (uint32_t i = 0; i < shape.workers_per_leaf; i++) {
      const uint32_t worker = leaf * shape.workers_per_leaf + i;
      builder.add_worker(worker, shape.worker_kind);
      builder.cable(numbered("worker", worker), 0, leaf_is, i, shape.link);
    }
    for (uint32_t spine = 0; spine < shape.spines; spine++) {
      builder.cable(leaf_is, shape.workers_per_leaf + spine, numbered("spine", spine), leaf,
                    shape.uplink);
    }
  }
  return builder.take();
}

void attach(Topology& topology, const std::string& name, const std::string& kind,
            const std::string& at, const LinkConfig& link) {
  uint32_t number = 0;
  const auto address = [&] { return Endpoint::ipv4(kOtherAddresses + number, wire::kTrioMlPort); };
  const auto is_taken = [&] {
    for (const NodeSpec& node : topology.nodes) {
      if (node.address.address == address().address) return true;
    }
    return false;
  };
  while (is_taken()) number++;
  topology.nodes.push_back({name, kind, address(), {}, "attached"});
  topology.cables.push_back({{name, 0}, {at, std::nullopt}, link, link, "attached"});
}

Result<void> check(const Topology& topology) {
  if (topology.nodes.empty()) {
    return failure("the topology has no node; allowed: one or more [[node]], or a shape");
  }
  if (auto good = check_nodes(topology); !good) return good;
  Names names;
  for (const NodeSpec& node : topology.nodes) names.insert(node.name);
  if (auto good = check_cables(topology, names); !good) return good;
  return check_groups(topology, names);
}

}  // namespace tributary::net

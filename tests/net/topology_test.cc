// SPDX-License-Identifier: Apache-2.0
// Method: the counts of each shape by hand and full reachability, refusals, then nodes of several
// kinds from one factory.
#include "net/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "tests/net/net_bed.h"

namespace tributary::net {
namespace {

using ::testing::HasSubstr;

/// A network whose nodes are sinks, except for the switches.
struct Built {
  explicit Built(const Topology& shape) : topology(shape) {
    auto made = build(topology, network, [this](const NodeSpec& spec) -> Result<BuiltNode> {
      if (spec.kind != "worker" && spec.kind != "trio") {
        return failure("kind='" + spec.kind + "' is unknown; allowed: worker, trio");
      }
      kinds.push_back(spec.kind);
      nodes.push_back(std::make_unique<SinkNode>(core));
      addresses.push_back(spec.address);
      ids.push_back(network.add_node(*nodes.back(), spec.name));
      return BuiltNode{ids.back(), nullptr, false};
    });
    if (!made) {
      error = made.error().text;
    } else {
      parts = std::move(*made);
    }
  }
  /// Sends from every node to every other. @return whether all packets arrive.
  [[nodiscard]] bool all_reach_all() {
    for (size_t from = 0; from < nodes.size(); from++) {
      for (size_t to = 0; to < nodes.size(); to++) {
        if (from == to) continue;
        network.transmit(ids[from], 0,
                         network.packets().make(addresses[from], addresses[to], 1, {}));
      }
    }
    while (core.run_next()) continue;
    for (const auto& node : nodes) {
      if (node->received.size() != nodes.size() - 1) return false;
    }
    return true;
  }
  const Topology topology;
  EventCore core;
  Network network{core, 1};
  std::vector<std::unique_ptr<SinkNode>> nodes;
  std::vector<std::string> kinds;
  std::vector<Endpoint> addresses;
  std::vector<NodeId> ids;
  BuiltNetwork parts;
  std::string error;
};

TEST(Topology, BuildsAStar) {
  Built built(star({.workers = 6, .link = {.rate_bits_per_s = 25'000'000'000}}));
  EXPECT_EQ(built.error, "");
  EXPECT_EQ(built.network.node_count(), 7u);
  EXPECT_EQ(built.network.link_count(), 12u);
  EXPECT_EQ(built.network.link_name(0), "worker-0.0>switch.0");
  EXPECT_EQ(built.network.config(3).rate_bits_per_s, 25'000'000'000u);
  EXPECT_EQ(built.addresses[5].to_string(), "10.0.0.6:12000");
  EXPECT_TRUE(built.all_reach_all());
}

TEST(Topology, BuildsTwoLevelsAndAChassis) {
  const TwoLevelShape shape{.leaves = 3, .workers_per_leaf = 2};
  Built racks(two_level(shape));
  EXPECT_EQ(racks.network.node_count(), 10u);
  EXPECT_EQ(racks.network.link_count(), 18u);
  EXPECT_TRUE(racks.network.find_link("leaf-2.2>top.2").has_value());
  EXPECT_TRUE(racks.all_reach_all());
  Built one_chassis(chassis(shape));
  EXPECT_TRUE(one_chassis.network.find_link("pfe-2.2>top.2").has_value());
  EXPECT_TRUE(one_chassis.all_reach_all());
}

TEST(Topology, BuildsLeavesAndSpines) {
  Built built(leaf_spine({.leaves = 4, .workers_per_leaf = 3, .spines = 2}));
  EXPECT_EQ(built.network.node_count(), 4u + 12 + 2);
  EXPECT_EQ(built.network.link_count(), 2u * (12 + 8));
  EXPECT_TRUE(built.network.find_link("leaf-3.4>spine-1.3").has_value());
  EXPECT_TRUE(built.all_reach_all());
  // 2 links within a leaf, otherwise 4: 12 x 2 x 2 + 12 x 9 x 4.
  EXPECT_EQ(built.network.counters().delivered, 48u + 432u);
}

TEST(Topology, BuildsSeveralSwitchKindsAndAttachedNodes) {
  Topology mixed = leaf_spine({.leaves = 2, .workers_per_leaf = 2, .spines = 1});
  attach(mixed, "aggregator", "trio", "leaf-1", {});
  attach(mixed, "second", "trio", "spine-0", {});
  Built built(mixed);
  EXPECT_EQ(built.error, "");
  EXPECT_EQ(built.addresses.back().to_string(), "10.1.0.2:12000");
  EXPECT_TRUE(built.network.find_link("aggregator.0>leaf-1.3").has_value());
  EXPECT_TRUE(built.all_reach_all());
  EXPECT_EQ(built.parts.switches.size(), 3u);
  EXPECT_EQ(built.parts.nodes.size(), mixed.nodes.size());
}

/// Returns the error of a star of two workers after `change`.
std::string refusal(const std::function<void(Topology&)>& change) {
  Topology topology = star({.workers = 2});
  change(topology);
  return Built(topology).error;
}

TEST(Topology, RefusesBadTopologiesBeforeTheRun) {
  EXPECT_EQ(refusal([](Topology&) {}), "");
  EXPECT_THAT(refusal([](Topology& t) { t = {}; }), HasSubstr("has no node"));
  EXPECT_EQ(refusal([](Topology& t) { t.nodes[1].name = "worker-1"; }),
            "star: name='worker-1' is taken; allowed: a name once");
  EXPECT_THAT(refusal([](Topology& t) { t.nodes[1].name = "a.b"; }), HasSubstr("name='a.b'"));
  EXPECT_EQ(
      refusal([](Topology& t) { t.nodes[1].address = t.nodes[2].address; }),
      "star: address=10.0.0.2:12000 of 'worker-1' is taken by 'worker-0'; allowed: an address "
      "once");
  EXPECT_THAT(refusal([](Topology& t) { t.nodes[1].address = Endpoint::ipv4(0xe0000001, 1); }),
              HasSubstr("is multicast"));
  EXPECT_EQ(
      refusal([](Topology& t) { t.cables[0].a.node = "worker-9"; }),
      "star: a='worker-9' is not a node; allowed: a name of a [[node]] or of the shape's nodes");
  EXPECT_EQ(refusal([](Topology& t) { t.cables[1].b.port = 0; }),
            "star: b='switch.0' has a cable already (star); allowed: one cable a port");
  EXPECT_THAT(refusal([](Topology& t) { t.cables[1].b.port = 65'536; }), HasSubstr("0 to 65535"));
  EXPECT_THAT(refusal([](Topology& t) { t.cables[1].b.node = "worker-1"; }),
              HasSubstr("is both ends of the cable"));
  EXPECT_THAT(refusal([](Topology& t) { t.cables[0].back.rate_bits_per_s = 0; }),
              HasSubstr("star: rate=0 bit/s is out of range; allowed: 1 to"));
  EXPECT_EQ(
      refusal([](Topology& t) { t.cables.pop_back(); }),
      "star: node 'worker-1' is not reachable from 'worker-0'; allowed: a path of cables through "
      "nodes that forward");
  EXPECT_EQ(refusal([](Topology& t) { t.nodes[2].kind = "wroker"; }),
            "star: node 'worker-1': kind='wroker' is unknown; allowed: worker, trio");
}

TEST(Topology, RefusesBadGroups) {
  const auto group = [](GroupSpec spec) {
    spec.where = "here";
    return refusal([&](Topology& t) { t.groups.push_back(spec); });
  };
  const Endpoint address = Endpoint::ipv4(0xef000001, 5);
  EXPECT_EQ(group({address, {"worker-0", "worker-1"}, {}, ""}), "");
  EXPECT_THAT(group({host_address(1), {"worker-0"}, {}, ""}), HasSubstr("here: address=10.0.0.2"));
  EXPECT_THAT(group({address, {}, {}, ""}), HasSubstr("here: receivers is empty"));
  EXPECT_THAT(group({address, {"worker-0"}, {"x"}, ""}),
              HasSubstr("here: senders='x' is not a node"));
}

TEST(Topology, GroupsReachTheirMembers) {
  Topology topology = two_level({.leaves = 2, .workers_per_leaf = 2});
  topology.groups.push_back(
      {Endpoint::ipv4(0xef000001, 5), {"worker-1", "worker-2", "worker-3"}, {"worker-0"}, "test"});
  Built built(topology);
  built.network.transmit(
      built.ids[0], 0,
      built.network.packets().make(built.addresses[0], topology.groups[0].address, 1, {}));
  while (built.core.run_next()) continue;
  EXPECT_EQ(built.nodes[0]->received.size(), 0u);
  for (uint32_t i = 1; i < 4; i++) EXPECT_EQ(built.nodes[i]->received.size(), 1u) << i;
}

}  // namespace
}  // namespace tributary::net

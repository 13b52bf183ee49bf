// SPDX-License-Identifier: Apache-2.0
// Method: tables by hand, a diamond and a tree with obvious paths, refusals, then random networks.
// There every packet must arrive over as few cables as an exhaustive search finds.
#include "net/routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "net/forwarder.h"
#include "tests/net/net_bed.h"
#include "tests/support/seed.h"

namespace tributary::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(AddressBook, NumbersAreConsecutiveFromZero) {
  AddressBook book;
  for (uint32_t i = 0; i < 1'000; i++) EXPECT_EQ(book.add(host_address(i)), i);
  for (uint32_t i = 0; i < 1'000; i++) EXPECT_EQ(book.add(host_address(i)), i);
  Endpoint other_port = host_address(7);
  other_port.port = 9;
  EXPECT_EQ(book.find(other_port), 7u);
  EXPECT_EQ(book.find(host_address(1'000)), AddressBook::kUnknown);
  EXPECT_EQ(book.size(), 1'000u);
}

TEST(RoutingTable, ReturnsRoutesGroupsOrNoPorts) {
  PacketPool pool;
  RoutingTable table;
  const auto ports = [&](const Endpoint& to) {
    const auto span = table.ports_for(*pool.make(host_address(99), to, 1, {}));
    return std::vector<uint32_t>(span.begin(), span.end());
  };
  const Endpoint group = Endpoint::parse("239.0.0.1:5").value();
  table.set_route(host_address(1), std::vector<uint32_t>{4});
  table.set_group(group, std::vector<uint32_t>{1, 2, 3});
  table.set_group(host_address(2), std::vector<uint32_t>{});
  EXPECT_THAT(ports(host_address(1)), ElementsAre(4));
  EXPECT_THAT(ports(group), ElementsAre(1, 2, 3));
  EXPECT_THAT(ports(host_address(2)), IsEmpty());
  EXPECT_THAT(ports(host_address(3)), IsEmpty());
  table.set_route(host_address(1), std::vector<uint32_t>{5});
  EXPECT_THAT(ports(host_address(1)), ElementsAre(5));
}

TEST(RoutingTable, EqualPathsShareFlowsAndEachFlowKeepsItsPath) {
  PacketPool pool;
  RoutingTable table(1);
  RoutingTable other(2);
  const std::vector<uint32_t> four{0, 1, 2, 3};
  table.set_route(host_address(1), four);
  other.set_route(host_address(1), four);
  std::vector<uint32_t> flows(4);
  uint32_t differ = 0;
  for (uint32_t i = 0; i < 4'000; i++) {
    const PacketRef packet = pool.make(host_address(100 + i), host_address(1), 1, {});
    const uint32_t port = table.ports_for(*packet).front();
    EXPECT_EQ(table.ports_for(*packet).size(), 1u);
    EXPECT_EQ(table.ports_for(*packet).front(), port);
    flows[port]++;
    differ += other.ports_for(*packet).front() != port ? 1 : 0;
  }
  for (const uint32_t count : flows) EXPECT_NEAR(count, 1'000, 150);  // 5 deviations of 27.
  EXPECT_NEAR(differ, 3'000, 150);
}

/// Forwarders and sinks, wired by the test.
struct Mesh {
  explicit Mesh(uint32_t switch_count, uint32_t host_count) : network(core, 1) {
    for (uint32_t i = 0; i < switch_count; i++) {
      switches.push_back(std::make_unique<Forwarder>(network, "s" + std::to_string(i)));
      stations.push_back(switches.back()->station());
    }
    for (uint32_t i = 0; i < host_count; i++) {
      hosts.push_back(std::make_unique<SinkNode>(core));
      const NodeId id = network.add_node(*hosts.back(), "h" + std::to_string(i));
      stations.push_back({id, {host_address(i)}, nullptr, false});
    }
    ports.resize(switch_count + host_count);
  }
  void join(NodeId a, NodeId b) {
    ASSERT_TRUE(network.connect(a, ports[a]++, b, ports[b]++, {}, {}).has_value());
  }
  [[nodiscard]] NodeId host(uint32_t index) const {
    return static_cast<NodeId>(switches.size()) + index;
  }
  void send(uint32_t from, const Endpoint& to) {
    network.transmit(host(from), 0, network.packets().make(host_address(from), to, 1, {}));
    while (core.run_next()) continue;
  }
  EventCore core;
  Network network;
  std::vector<std::unique_ptr<Forwarder>> switches;
  std::vector<std::unique_ptr<SinkNode>> hosts;
  std::vector<Station> stations;
  std::vector<uint32_t> ports;  ///< The next free port of each node.
};

TEST(Routing, DiamondUsesBothPaths) {
  // h0 - s0 - {s1, s2} - s3 - h1
  Mesh mesh(4, 2);
  mesh.join(mesh.host(0), 0);
  mesh.join(mesh.host(1), 3);
  for (const uint32_t middle : {1u, 2u}) {
    mesh.join(0, middle);
    mesh.join(middle, 3);
  }
  ASSERT_TRUE(route_shortest(mesh.network, mesh.stations).has_value());
  for (uint16_t port = 1; port <= 100; port++) {
    Endpoint to = host_address(1);
    to.port = port;
    mesh.send(0, to);
  }
  EXPECT_EQ(mesh.hosts[1]->received.size(), 100u);
  EXPECT_GT(mesh.switches[1]->counters().forwarded, 25u);
  EXPECT_GT(mesh.switches[2]->counters().forwarded, 25u);
  EXPECT_EQ(mesh.network.counters().delivered, 400u);
}

TEST(Routing, HostsDoNotForward) {
  // s0 - h0 - s1: the only path between h1 and h2 leads through a host.
  Mesh mesh(2, 3);
  mesh.join(mesh.host(0), 0);
  mesh.join(mesh.host(0), 1);
  mesh.join(mesh.host(1), 0);
  mesh.join(mesh.host(2), 1);
  const auto result = route_shortest(mesh.network, mesh.stations);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().text, HasSubstr("is not reachable from"));
}

TEST(Routing, RefusesDuplicateAddresses) {
  Mesh mesh(1, 2);
  mesh.join(mesh.host(0), 0);
  mesh.join(mesh.host(1), 0);
  mesh.stations[2].addresses = {host_address(0)};
  EXPECT_EQ(route_shortest(mesh.network, mesh.stations).error().text,
            "'h0' and 'h1' both have the address of 10.0.0.1:5000; allowed: one node an address");
}

TEST(Routing, GroupPacketReachesEachOtherReceiverOnce) {
  // Two leaves under two spines; h0 h1 | h2 h3, and h4 at leaf 0 is not in the group.
  Mesh mesh(4, 5);
  for (const uint32_t leaf : {0u, 1u}) {
    mesh.join(leaf, 2);
    mesh.join(leaf, 3);
  }
  for (const uint32_t host : {0u, 1u, 4u}) mesh.join(mesh.host(host), 0);
  for (const uint32_t host : {2u, 3u}) mesh.join(mesh.host(host), 1);
  ASSERT_TRUE(route_shortest(mesh.network, mesh.stations).has_value());
  const Group group{Endpoint::parse("239.0.0.1:5").value(),
                    {mesh.host(0), mesh.host(1), mesh.host(2)},
                    {mesh.host(3)}};
  ASSERT_TRUE(route_group(mesh.network, mesh.stations, group).has_value());
  mesh.send(3, group.address);  // A sender that is not a receiver: three copies.
  mesh.send(0, group.address);  // A receiver: two copies, for the others.
  std::vector<size_t> received;
  for (const auto& host : mesh.hosts) received.push_back(host->received.size());
  EXPECT_THAT(received, ElementsAre(1, 2, 2, 0, 0));
  EXPECT_EQ(mesh.network.packets().held_count(), 2u);  // The copies share one packet.
  // Only one spine is on the tree.
  EXPECT_TRUE(mesh.switches[2]->counters().forwarded == 0 ||
              mesh.switches[3]->counters().forwarded == 0);
}

TEST(Routing, GroupsSpreadOverSpines) {
  Mesh mesh(6, 2);  // Leaves 0 and 1, spines 2 to 5.
  for (uint32_t spine = 2; spine < 6; spine++) {
    mesh.join(0, spine);
    mesh.join(1, spine);
  }
  mesh.join(mesh.host(0), 0);
  mesh.join(mesh.host(1), 1);
  ASSERT_TRUE(route_shortest(mesh.network, mesh.stations).has_value());
  for (uint32_t i = 0; i < 40; i++) {
    const Group group{Endpoint::ipv4(0xef000001 + i, 5), {mesh.host(0), mesh.host(1)}, {}};
    ASSERT_TRUE(route_group(mesh.network, mesh.stations, group).has_value());
    mesh.send(0, group.address);
  }
  EXPECT_EQ(mesh.hosts[1]->received.size(), 40u);
  for (uint32_t spine = 2; spine < 6; spine++) {
    EXPECT_GT(mesh.switches[spine]->counters().forwarded, 0u) << spine;
  }
}

TEST(Routing, RefusesAGroupWithoutReceivers) {
  Mesh mesh(1, 1);
  mesh.join(mesh.host(0), 0);
  EXPECT_THAT(route_group(mesh.network, mesh.stations, {host_address(9), {}, {}}).error().text,
              HasSubstr("has no receiver"));
}

/// Returns the number of cables from `from` to `to`, by trying each length: the simplest search.
uint32_t cables_between(const std::vector<std::set<NodeId>>& next, NodeId from, NodeId to) {
  std::set<NodeId> reached{from};
  for (uint32_t length = 0;; length++) {
    if (reached.contains(to)) return length;
    std::set<NodeId> further = reached;
    for (const NodeId node : reached) further.insert(next[node].begin(), next[node].end());
    reached = further;
  }
}

TEST(Routing, RandomNetworksDeliverByShortestPaths) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 30; round++) {
    const uint32_t switches = 1 + prng.below(12);
    const uint32_t hosts = 2 + prng.below(12);
    Mesh mesh(switches, hosts);
    std::vector<std::set<NodeId>> next(switches + hosts);
    const auto join = [&](NodeId a, NodeId b) {
      mesh.join(a, b);
      next[a].insert(b);
      next[b].insert(a);
    };
    for (uint32_t i = 1; i < switches; i++) join(i, prng.below(i));
    for (uint32_t i = 0; i < switches; i++) {
      const uint32_t other = prng.below(switches);
      if (other != i) join(i, other);  // Sometimes two cables join the same nodes.
    }
    for (uint32_t i = 0; i < hosts; i++) join(mesh.host(i), prng.below(switches));
    ASSERT_TRUE(route_shortest(mesh.network, mesh.stations).has_value());
    for (uint32_t i = 0; i < 50; i++) {
      const uint32_t from = prng.below(hosts);
      const uint32_t to = prng.below(hosts);
      if (from == to) continue;
      const uint64_t before = mesh.network.counters().delivered;
      mesh.send(from, host_address(to));
      ASSERT_EQ(mesh.network.counters().delivered - before,
                cables_between(next, mesh.host(from), mesh.host(to)));
    }
    uint64_t lost = 0;
    for (const auto& node : mesh.switches) {
      lost += node->counters().no_route + node->counters().back_to_input_port;
    }
    ASSERT_EQ(lost, 0u);
  }
}

}  // namespace
}  // namespace tributary::net

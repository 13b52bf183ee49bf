// SPDX-License-Identifier: Apache-2.0
// Method: one switch with three hosts; every outcome of a packet by hand.
#include "net/forwarder.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/net/net_bed.h"

namespace tributary::net {
namespace {

struct ForwarderBed : ::testing::Test {
  ForwarderBed() {
    for (uint32_t i = 0; i < 3; i++) {
      ids[i] = network.add_node(hosts[i], "h" + std::to_string(i));
      EXPECT_TRUE(network.connect(ids[i], 0, forwarder.id(), i, {}, {}).has_value());
      forwarder.table().set_route(host_address(i), std::array{i});
    }
  }
  void send(uint32_t from, const Endpoint& to) {
    network.transmit(ids[from], 0, network.packets().make(host_address(from), to, 934, {}));
    while (core.run_next()) continue;
  }
  EventCore core;
  Network network{core, 1};
  Forwarder forwarder{network, "switch"};
  std::array<SinkNode, 3> hosts{SinkNode(core), SinkNode(core), SinkNode(core)};
  std::array<NodeId, 3> ids{};
};

TEST_F(ForwarderBed, ForwardsAfterTheWholePacket) {
  send(0, host_address(2));
  ASSERT_EQ(hosts[2].received.size(), 1u);
  EXPECT_EQ(hosts[2].received[0].at, at_ticks(2 * (8'000 + 50'000)));
  EXPECT_EQ(hosts[2].received[0].packet->source, host_address(0));
  EXPECT_EQ(forwarder.counters().forwarded, 1u);
}

TEST_F(ForwarderBed, DropsAndCountsUnknownDestinations) {
  send(0, host_address(9));
  EXPECT_EQ(forwarder.counters().no_route, 1u);
  EXPECT_EQ(network.packets().held_count(), 0u);
}

TEST_F(ForwarderBed, NeverSendsBackToTheIngressPort) {
  send(0, host_address(0));
  EXPECT_EQ(forwarder.counters().back_to_input_port, 1u);
  EXPECT_TRUE(hosts[0].received.empty());
}

TEST_F(ForwarderBed, ReplicatesToAGroup) {
  const Endpoint group = Endpoint::ipv4(0xef000001, 7);
  forwarder.table().set_group(group, std::array{0u, 1u, 2u});
  send(1, group);
  EXPECT_EQ(hosts[0].received.size(), 1u);
  EXPECT_EQ(hosts[1].received.size(), 0u);
  EXPECT_EQ(hosts[2].received.size(), 1u);
  EXPECT_EQ(forwarder.counters().forwarded, 1u);
  EXPECT_EQ(forwarder.counters().copies, 2u);
  EXPECT_EQ(&*hosts[0].received[0].packet, &*hosts[2].received[0].packet);
}

}  // namespace
}  // namespace tributary::net

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shared by the tests of the virtual network: a node that records its packets, and two such nodes
/// joined by one cable.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "net/network.h"

namespace tributary::net {

/// Records each packet with its time and port.
class SinkNode final : public Node {
 public:
  struct Received {
    Instant at;
    uint32_t port;
    PacketRef packet;
  };
  explicit SinkNode(EventCore& core) : core_(core) {}
  void receive(uint32_t port, PacketRef packet) override {
    received.push_back({core_.now(), port, std::move(packet)});
  }
  std::vector<Received> received;

 private:
  EventCore& core_;
};

inline Endpoint host_address(uint32_t index) { return Endpoint::ipv4(0x0a000001 + index, 5000); }
inline Instant at_ticks(int64_t count) { return Instant(Duration::from_ticks(count)); }

/// The cable a.0 -- b.0, with `forth` from a to b.
struct CableBed {
  explicit CableBed(const LinkConfig& forth, uint64_t seed = 1, uint32_t train = 1,
                    EventCore::Queue queue = EventCore::Queue::kCalendar)
      : core(queue), network(core, seed, train), a(core), b(core) {
    a_id = network.add_node(a, "a");
    b_id = network.add_node(b, "b");
    const auto connected = network.connect(a_id, 0, b_id, 0, forth, LinkConfig{});
    EXPECT_TRUE(connected.has_value()) << connected.error().text;
    link = connected.value_or(0);
  }
  /// Makes a packet without stored bytes from a to b.
  PacketRef packet(uint32_t size_bytes) {
    return network.packets().make(host_address(0), host_address(1), size_bytes, {});
  }
  void send(uint32_t size_bytes) { network.transmit(a_id, 0, packet(size_bytes)); }
  void run() {
    while (core.run_next()) continue;
  }
  [[nodiscard]] LinkCounters counters() const { return network.counters(link); }

  EventCore core;
  Network network;
  SinkNode a;
  SinkNode b;
  NodeId a_id = 0;
  NodeId b_id = 0;
  LinkId link = 0;
};

}  // namespace tributary::net

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A switch that forwards datagrams by their destination address and does nothing else.
///
/// Model:   A packet leaves at the instant at which its last bit arrives. The time of the switch's
///          pipeline counts as part of its cables' propagation, so it costs no event. A group's
///          packet leaves by all ports of the group except its input port.
/// Threads: One.
/// Errors:  A packet without a route, or one routed back to its input port, is dropped and counted.
/// Tests:   tests/net/forwarder_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "net/network.h"
#include "net/routing.h"

namespace tributary::net {

struct ForwarderCounters {
  uint64_t forwarded = 0;
  uint64_t copies = 0;  ///< Copies of groups' packets; each packet counts once in `forwarded`.
  uint64_t no_route = 0;
  uint64_t back_to_input_port = 0;
};

class Forwarder final : public Node {
 public:
  /// Adds itself to the network.
  Forwarder(Network& network, std::string name);

  void receive(uint32_t port, PacketRef packet) override;

  [[nodiscard]] NodeId id() const { return id_; }
  [[nodiscard]] RoutingTable& table() { return table_; }
  [[nodiscard]] const ForwarderCounters& counters() const { return counters_; }
  /// Describes this node for routing.
  [[nodiscard]] Station station() { return {id_, {}, &table_, true}; }

 private:
  void replicate(uint32_t port, std::span<const uint32_t> ports, const PacketRef& packet);

  Network& network_;
  NodeId id_;
  RoutingTable table_;
  ForwarderCounters counters_;
};

}  // namespace tributary::net

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What every aggregator in the virtual network has in common: an address, ports with somebody
/// behind each, and results that leave through them.
///
/// Model:   A datagram to another address is forwarded without cost: the plain router beside the
///          aggregation program, whose work is not modelled. A result for a multicast group leaves
///          through each port of the group, as Trio's multicast does (Trio paper §4).
/// Threads: One.
/// Errors:  A destination without a port is counted in unroutable(), never an error.
/// Tests:   tests/lab/cluster/
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/trio_ml/config.h"
#include "lab/backends/switchml_worker.h"
#include "lab/inspect/inspected_node.h"
#include "lab/result.h"
#include "lab/scenario.h"
#include "net/network.h"
#include "net/routing.h"

namespace tributary::lab {

/// What an aggregator is built from, whatever its kind.
struct AggregatorSpec {
  std::string name;
  Endpoint address;
  trio_ml::JobConfig job;         ///< Counts in simulated packets.
  std::vector<Endpoint> workers;  ///< Of the whole job, by rank.
  PfeSettings pfe;
  SwitchmlDesign switchml;       ///< Of a switch of SwitchML's …
  uint32_t slots = 0;            ///< … and the slots that its workers use, simulated ones.
  uint64_t link_bits_per_s = 0;  ///< Of the workers' cables.
  /// Whether gradients exist; else only their sizes do.
  bool values = true;
  HostSettings host;  ///< Of servers.
  uint32_t train = 1;
  uint64_t seed = 1;  ///< Of session numbers.
};

class AggregatorNode : public net::Node, public InspectedNode {
 public:
  AggregatorNode(net::Network& network, const AggregatorSpec& spec);
  virtual ~AggregatorNode() = default;
  AggregatorNode(const AggregatorNode&) = delete;
  AggregatorNode& operator=(const AggregatorNode&) = delete;

  [[nodiscard]] net::NodeId id() const { return id_; }
  [[nodiscard]] const std::string& name() const final { return spec_.name; }
  [[nodiscard]] const Endpoint& address() const final { return spec_.address; }
  /// Where datagrams to other addresses and groups leave; for net::build().
  [[nodiscard]] net::RoutingTable& table() { return table_; }

  void receive(uint32_t port, net::PacketRef packet) final;

  /// What it has done, for people. @param elapsed Length of the run.
  [[nodiscard]] virtual AggregatorResult result(Duration elapsed) const = 0;
  [[nodiscard]] uint64_t unroutable() const { return unroutable_; }

  // A node whose inside is modelled overrides both.
  bool set_trace(TraceSink&) override { return false; }
  [[nodiscard]] NodeSnapshot snapshot(const SnapshotWish&) override {
    return {.node = name(), .tables = {}};
  }

 protected:
  /// A datagram to this aggregator.
  virtual void aggregate(net::PacketRef packet) = 0;
  /// Sends a datagram from this aggregator.
  void send(std::span<const std::byte> stored, uint32_t size_bytes,
            std::span<const Endpoint> destinations);

  /// Sends a datagram from this aggregator that passed through it without waiting for the rest of
  /// its train (net::Network::transmit_last()).
  void send_last(net::PacketRef packet);

  [[nodiscard]] net::Network& network() { return network_; }
  [[nodiscard]] EventCore& core() { return network_.core(); }
  [[nodiscard]] Instant network_now() const { return network_.core().now(); }
  [[nodiscard]] const AggregatorSpec& spec() const { return spec_; }

 private:
  void forward(net::PacketRef packet);

  net::Network& network_;
  const AggregatorSpec spec_;
  net::NodeId id_;
  net::RoutingTable table_;
  uint64_t unroutable_ = 0;
};

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The base of all aggregators in the virtual network: an address, ports, and results that leave
/// through them.
///
/// Model:   The node forwards datagrams to other addresses without cost. The work of the router
///          beside the aggregation program is not modelled. A result for a multicast group leaves
///          through each port of the group, as Trio's multicast does (Trio paper §4). A result is
///          marked if a contribution to its block was, as ATP merges ECN bits (ATP §3.7).
/// Threads: One.
/// Errors:  A destination without a port is counted in unroutable(), never an error.
/// Tests:   tests/lab/run_test.cc
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

/// The settings of an aggregator of any kind.
struct AggregatorSpec {
  std::string name;
  Endpoint address;
  trio_ml::JobConfig job;         ///< Counts in simulated packets.
  std::vector<Endpoint> workers;  ///< Addresses of the whole job's workers, by rank.
  PfeSettings pfe;
  SwitchmlDesign switchml;       ///< For a SwitchML switch.
  uint32_t slots = 0;            ///< Simulated slots that a SwitchML switch's workers use.
  uint64_t link_bits_per_s = 0;  ///< Rate of the workers' cables.
  /// Whether gradients exist, or only their sizes.
  bool values = true;
  uint32_t quorum = 0;       ///< MitigationSettings::quorum.
  HostSettings host;         ///< Costs of a server's host.
  bool keeps_marks = false;  ///< Whether ECN marks go from contributions to results.
  uint32_t weight = 1;       ///< A server's part of every tensor, relative to the others'.
  uint32_t train = 1;
  uint64_t seed = 1;  ///< Seed of the session numbers.
  /// A job beside `job` that the same machine serves.
  struct FurtherJob {
    trio_ml::JobConfig job;
    uint64_t seed = 1;
  };
  std::vector<FurtherJob> further;  ///< Only back ends whose jobs share switches have any.
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
  /// Returns the routes of datagrams to other addresses and groups, for net::build() to fill.
  [[nodiscard]] net::RoutingTable& table() { return table_; }

  void receive(uint32_t port, net::PacketRef packet) final;

  /// Returns traffic, latency and parts. @param elapsed Length of the run.
  [[nodiscard]] virtual AggregatorResult result(Duration elapsed) const = 0;
  [[nodiscard]] uint64_t unroutable() const { return unroutable_; }

  // A node whose inside is modelled overrides both.
  bool set_trace(TraceSink&) override { return false; }
  [[nodiscard]] NodeSnapshot snapshot(const SnapshotRequest&) override {
    return {.node = name(), .tables = {}};
  }

 protected:
  /// Takes a datagram to this aggregator.
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
  void note_mark(const net::Packet& packet);
  [[nodiscard]] bool is_marked(std::span<const std::byte> stored, uint32_t size_bytes) const;

  net::Network& network_;
  const AggregatorSpec spec_;
  net::NodeId id_;
  net::RoutingTable table_;
  uint64_t unroutable_ = 0;
  /// Marked blocks, each at the place of its number; a later block takes the place over. Empty
  /// unless the node keeps marks.
  std::vector<uint64_t> marks_;
};

}  // namespace tributary::lab

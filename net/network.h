// SPDX-License-Identifier: Apache-2.0
/// @file
/// The virtual network: nodes with numbered ports, joined by cables. Each direction of a cable is a
/// link with a rate, a propagation delay, an output queue and faults.
///
/// Units:   Rates in bit/s, sizes in bytes, virtual time.
/// Threads: One.
/// Errors:  Wrong wiring (a port used twice, an unknown node) is refused with an Error before the
///          run. Sending into a port without a cable counts in NetworkCounters::no_link.
/// Determinism: Each link draws its faults from its own generator, seeded from the network's seed
///          and the link's number. The digest covers every delivery.
/// Tests:   tests/net/network_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/event_core.h"
#include "base/result.h"
#include "net/link.h"
#include "net/link_config.h"
#include "net/packet.h"

namespace tributary::net {

using NodeId = uint32_t;
using LinkId = uint32_t;  ///< One direction of a cable.

/// The highest port number of a node. It bounds the port table; no real device has more ports.
inline constexpr uint32_t kPortMax = 65'535;

/// Anything with ports: a worker's host, a switch, an aggregator.
class Node {
 public:
  /// Called when the packet's last bit has arrived at `port`.
  virtual void receive(uint32_t port, PacketRef packet) = 0;

 protected:
  ~Node() = default;
};

struct NetworkCounters {
  uint64_t delivered = 0;
  uint64_t no_link = 0;
};

/// transmit() puts a packet into the link's output queue, a FIFO. Its exact depth follows from the
/// time at which the link will be free: (free_at - now) x rate.
///
/// - A packet that does not fit is dropped (tail drop). One that finds more than ecn_bytes queued
///   is marked.
/// - A packet's last bit leaves after its serialisation and arrives a propagation delay later. Then
///   the node at the other end receives it (store and forward).
/// - A link keeps the order of packets, unless its faults reorder them.
///
/// With train = k each packet stands for k equal packets in a row: k times the bytes on the wire
/// and in the queues, but one event. The experiment must divide windows, tensors and everything
/// else by k.
class Network {
 public:
  using Tap = net::Tap;

  Network(EventCore& core, uint64_t seed, uint32_t train = 1);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// @param name For messages, reports and files. A name already in use is a bug.
  NodeId add_node(Node& node, std::string name);
  /// Adds a cable between two ports. `forth` is the direction from a to b.
  /// @return the link from a to b; the other direction's link is one more. Refuses an unknown node,
  ///         a port in use or above kPortMax, and links that check(LinkConfig) refuses.
  Result<LinkId> connect(NodeId a, uint32_t port_a, NodeId b, uint32_t port_b,
                         const LinkConfig& forth, const LinkConfig& back);

  /// Sends `packet` out of a node's port at the present time.
  void transmit(NodeId from, uint32_t port, PacketRef packet);
  /// Like transmit(), for a node that passes packets on one by one after a delay. The last packet
  /// of a train leaves at the present time, the others before it at the link's rate.
  void transmit_last(NodeId from, uint32_t port, PacketRef packet);

  /// Sets the link's faults for later packets. @pre check(faults) is good.
  void set_faults(LinkId link, const LinkFaults& faults);
  /// Cuts or repairs a link. A cut link loses all packets that are sent into it or would arrive.
  void set_cut(LinkId link, bool cut);
  void set_tap(LinkId link, Tap tap);

  [[nodiscard]] EventCore& core() { return core_; }
  [[nodiscard]] PacketPool& packets() { return packets_; }
  [[nodiscard]] uint32_t train() const { return train_; }
  [[nodiscard]] uint32_t link_count() const { return static_cast<uint32_t>(links_.size()); }
  [[nodiscard]] uint32_t node_count() const { return static_cast<uint32_t>(nodes_.size()); }
  [[nodiscard]] const std::string& node_name(NodeId node) const;
  [[nodiscard]] Result<NodeId> find_node(std::string_view name) const;
  [[nodiscard]] const LinkEnds& ends(LinkId link) const { return links_.at(link)->ends(); }
  [[nodiscard]] const LinkConfig& config(LinkId link) const { return links_.at(link)->config(); }
  [[nodiscard]] LinkCounters counters(LinkId link) const { return links_.at(link)->counters(); }
  [[nodiscard]] const NetworkCounters& counters() const { return counters_; }
  /// Returns "from.port>to.port", for people. find_link() finds the link with this name.
  [[nodiscard]] std::string link_name(LinkId link) const;
  [[nodiscard]] Result<LinkId> find_link(std::string_view name) const;
  /// Returns the link that leaves a node's port, if it has a cable.
  [[nodiscard]] Result<LinkId> link_at(NodeId node, uint32_t port) const;
  /// Returns the bytes waiting in, or being sent from, the link's output queue.
  [[nodiscard]] uint64_t queue_bytes(LinkId link) const;
  [[nodiscard]] uint64_t digest() const { return digest_; }

 private:
  friend class Link;
  struct NodeEntry {
    Node* node;
    std::string name;
    std::vector<Link*> ports;  ///< Shape [highest port with a cable + 1]; null for none.
  };

  /// Delivers a packet that has reached the link's end.
  void deliver(const Link& link, Node& receiver, PacketRef packet, Duration spread);
  [[nodiscard]] Link* find_port(NodeId node, uint32_t port);
  [[nodiscard]] Result<void> check_port(NodeId node, uint32_t port) const;
  Link& add_link(const LinkEnds& ends, const LinkConfig& config);

  EventCore& core_;
  const uint64_t seed_;
  const uint32_t train_;
  PacketPool packets_;  ///< Declared before the members that hold packets.
  std::vector<NodeEntry> nodes_;
  std::map<std::string, NodeId, std::less<>> names_;
  std::vector<std::unique_ptr<Link>> links_;
  NetworkCounters counters_;
  uint64_t digest_ = 0;
  const Packet* passing_ = nullptr;  ///< With trains: the packet that receive() is called with …
  Duration passing_spread_;          ///< … and the time from its first to its last packet.
};

}  // namespace tributary::net

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The virtual network: nodes with numbered ports, joined by cables. Each direction of a cable is a
/// link with a rate, a propagation delay, an output queue and faults.
///
/// Model:   transmit() puts a packet into the link's output queue. The queue is a FIFO whose exact
///          depth is known from when the link will be free: (free_at - now) x rate. A packet that
///          does not fit is lost (tail drop); one that finds more than ecn_bytes queued is marked.
///          Its last bit leaves after its serialisation, arrives a propagation delay later, and is
///          then given to the node at the other end (store and forward).
///          A link keeps its order, unless its faults say otherwise.
/// Trains:  With train = k each packet stands for k equal ones that follow each other: k times the
///          bytes on the wire and in the queues, one event. Everything else (windows, tensors) is
///          to be divided by k by whoever sets the experiment up.
/// Units:   Rates in bit/s, sizes in bytes, virtual time.
/// Threads: One.
/// Errors:  Wrong wiring (a port used twice, an unknown node) is refused with an Error before the
///          run. Sending into a port without cable counts in NetworkCounters::no_link.
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

/// The highest port number of a node. It bounds the table of ports; no device has more.
inline constexpr uint32_t kPortMax = 65'535;

/// Anything with ports: a worker's host, a switch, an aggregator.
class Node {
 public:
  /// The packet's last bit has arrived at `port`.
  virtual void receive(uint32_t port, PacketRef packet) = 0;

 protected:
  ~Node() = default;
};

struct NetworkCounters {
  uint64_t delivered = 0;
  uint64_t no_link = 0;
};

class Network {
 public:
  using Tap = net::Tap;

  Network(EventCore& core, uint64_t seed, uint32_t train = 1);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// @param name For messages, reports and files. A name that is taken is a bug.
  NodeId add_node(Node& node, std::string name);
  /// A cable between two ports; `forth` is the direction from a to b.
  /// @return the link of the direction from a to b; the other one is one more. Refuses an unknown
  ///         node, a port that is taken or above kPortMax, and what check(LinkConfig) refuses.
  Result<LinkId> connect(NodeId a, uint32_t port_a, NodeId b, uint32_t port_b,
                         const LinkConfig& forth, const LinkConfig& back);

  /// Sends `packet` out of a node's port, now.
  void transmit(NodeId from, uint32_t port, PacketRef packet);
  /// The same for a node that passes packets on one by one, however long that takes: the last of a
  /// train leaves now, those before it at the link's rate before it.
  void transmit_last(NodeId from, uint32_t port, PacketRef packet);

  /// From now on the link does this. @pre check(faults) is good.
  void set_faults(LinkId link, const LinkFaults& faults);
  /// While a link is cut all packets are lost that are sent into it or would arrive.
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
  /// "from.port>to.port", for people. The name of a link that a person gives finds it with
  /// find_link().
  [[nodiscard]] std::string link_name(LinkId link) const;
  [[nodiscard]] Result<LinkId> find_link(std::string_view name) const;
  /// The link that leaves a node's port, if there is a cable.
  [[nodiscard]] Result<LinkId> link_at(NodeId node, uint32_t port) const;
  /// Bytes waiting in, or being sent from, the link's output queue.
  [[nodiscard]] uint64_t queue_bytes(LinkId link) const;
  [[nodiscard]] uint64_t digest() const { return digest_; }

 private:
  friend class Link;
  struct NodeEntry {
    Node* node;
    std::string name;
    std::vector<Link*> ports;  ///< Shape [highest port with a cable + 1]; null for none.
  };

  /// The packet has come to the link's end.
  void deliver(const Link& link, Node& receiver, PacketRef packet, Duration spread);
  [[nodiscard]] Link* find_port(NodeId node, uint32_t port);
  [[nodiscard]] Result<void> check_port(NodeId node, uint32_t port) const;
  Link& add_link(const LinkEnds& ends, const LinkConfig& config);

  EventCore& core_;
  const uint64_t seed_;
  const uint32_t train_;
  PacketPool packets_;  ///< Before those that hold packets.
  std::vector<NodeEntry> nodes_;
  std::map<std::string, NodeId, std::less<>> names_;
  std::vector<std::unique_ptr<Link>> links_;
  NetworkCounters counters_;
  uint64_t digest_ = 0;
  const Packet* passing_ = nullptr;  ///< With trains: the packet that receive() is called with,
  Duration passing_spread_;          ///< and from its first to its last packet.
};

}  // namespace tributary::net

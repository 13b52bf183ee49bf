// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which port leads to an address: a node's table, and the tables of a whole network by shortest
/// paths.
///
/// Model:   An address (without UDP port) leads to one port, or to several of equal cost, of which
/// a
///          hash of the flow (both addresses and ports) picks one: a flow keeps its path (ECMP, RFC
///          2992). Each table salts the hash, so switches in a row do not all choose alike. A group
///          address leads to several ports, all of which get the packet.
///          Paths are the fewest cables; packets pass only through nodes that forward. A group's
///          tree is the paths of its members to the first of them; between equal ones the group's
///          address chooses, so groups spread over spines.
/// Threads: One. Tables do not change while packets run, unless somebody routes anew.
/// Errors:  route_shortest() and route_group() name who cannot be reached.
/// Determinism: Only numbers of nodes and ports and addresses enter.
/// Tests:   tests/net/routing_test.cc
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "net/address_book.h"
#include "net/network.h"

namespace tributary::net {

class RoutingTable {
 public:
  /// @param salt Different for each node.
  explicit RoutingTable(uint64_t salt = 0);

  /// Packets to `address` leave by one of `ports`. Replaces what there was. @pre ports not empty.
  void set_route(const Endpoint& address, std::span<const uint32_t> ports);
  /// Packets to `address` leave by all of `ports`, which may be none.
  void set_group(const Endpoint& address, std::span<const uint32_t> ports);
  /// Forgets all routes, and shares `book` from now on.
  void clear(std::shared_ptr<AddressBook> book);

  /// By which ports `packet` leaves: none if its destination is unknown, one unless it is a
  /// group's. Valid until the table changes.
  [[nodiscard]] std::span<const uint32_t> ports_for(const Packet& packet) const;

 private:
  enum class Kind : uint8_t { kNone, kRoute, kGroup };
  /// Ports of an address: ports_[first … first + count).
  struct Exit {
    uint32_t first = 0;
    uint16_t count = 0;
    Kind kind = Kind::kNone;
  };

  void set(const Endpoint& address, std::span<const uint32_t> ports, Kind kind);

  uint64_t salt_;
  std::shared_ptr<AddressBook> book_;
  std::vector<Exit> exits_;  ///< Shape [numbers of the book, as far as there are routes].
  std::vector<uint32_t> ports_;
  std::map<std::vector<uint32_t>, uint32_t> interned_;  ///< Where a list lies in ports_.
};

/// A node with what routing has to know about it.
struct Station {
  NodeId node = 0;
  std::vector<Endpoint> addresses;  ///< What is addressed to it; none for a plain switch.
  RoutingTable* table = nullptr;    ///< Filled in; null for a host, which sends by its one port.
  bool forwards = false;            ///< Packets for others may pass through.
};

/// A multicast group. Its members are stations.
struct Group {
  Endpoint address;
  std::vector<NodeId> receivers;
  std::vector<NodeId> senders;  ///< Who sends to it without being a receiver.
};

/// The first pair of stations (as indexes: from, to) of which the second has an address that the
/// first cannot reach, if there is any.
[[nodiscard]] std::optional<std::pair<uint32_t, uint32_t>> find_unreachable(
    const Network& network, std::span<const Station> stations);

/// Fills the table of each station with the shortest paths to all addresses, instead of what was in
/// it. Refuses when a station
/// cannot reach another one's address, or when two stations have the same address.
[[nodiscard]] Result<void> route_shortest(const Network& network,
                                          std::span<const Station> stations);

/// Adds `group` to the tables of the stations on its tree. Refuses when a member cannot be reached,
/// or there is no receiver.
[[nodiscard]] Result<void> route_group(const Network& network, std::span<const Station> stations,
                                       const Group& group);

}  // namespace tributary::net

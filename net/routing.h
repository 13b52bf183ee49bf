// SPDX-License-Identifier: Apache-2.0
/// @file
/// Routes by destination address: the table of a node, and the tables of a whole network by
/// shortest paths.
///
/// Threads: One. Tables change while packets are in flight only if a caller sets new routes.
/// Errors:  route_shortest() and route_group() name the nodes that cannot be reached.
/// Determinism: Only node numbers, port numbers and addresses affect the tables.
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

/// An address (without UDP port) leads to one port, or to several of equal cost. A hash of the flow
/// (both addresses and ports) picks one of them, so a flow keeps its path (ECMP, RFC 2992). Each
/// table salts the hash, so switches in a row do not all choose alike. A group's packet leaves by
/// all ports of the group.
class RoutingTable {
 public:
  /// @param salt Different for each node.
  explicit RoutingTable(uint64_t salt = 0);

  /// Routes packets for `address` to one of `ports`. Replaces an older route. @pre ports not empty.
  void set_route(const Endpoint& address, std::span<const uint32_t> ports);
  /// Routes packets for `address` to all of `ports`, which may be none.
  void set_group(const Endpoint& address, std::span<const uint32_t> ports);
  /// Deletes all routes and uses `book` from then on.
  void clear(std::shared_ptr<AddressBook> book);

  /// Returns the ports by which `packet` leaves: none if its destination is unknown, one unless it
  /// is a group's. Valid until the table changes.
  [[nodiscard]] std::span<const uint32_t> ports_for(const Packet& packet) const;

 private:
  enum class Kind : uint8_t { kNone, kRoute, kGroup };
  /// The ports of an address: ports_[first … first + count).
  struct Exit {
    uint32_t first = 0;
    uint16_t count = 0;
    Kind kind = Kind::kNone;
  };

  void set(const Endpoint& address, std::span<const uint32_t> ports, Kind kind);

  uint64_t salt_;
  std::shared_ptr<AddressBook> book_;
  std::vector<Exit> exits_;  ///< Shape [numbers of the book, up to the highest with a route].
  std::vector<uint32_t> ports_;
  std::map<std::vector<uint32_t>, uint32_t> interned_;  ///< Start in ports_ of each list.
};

/// A node, as routing sees it.
struct Station {
  NodeId node = 0;
  std::vector<Endpoint> addresses;  ///< Its addresses; none for a plain switch.
  RoutingTable* table = nullptr;    ///< Routing fills it; null for a host, which uses its one port.
  bool forwards = false;            ///< Whether packets for others may pass through it.
};

/// A multicast group. Its members are stations.
struct Group {
  Endpoint address;
  std::vector<NodeId> receivers;
  std::vector<NodeId> senders;  ///< Nodes that send to it without being receivers.
};

/// Returns the first pair of stations (as indexes: from, to) in which `to` has an address that
/// `from` cannot reach; nullopt if there is none.
[[nodiscard]] std::optional<std::pair<uint32_t, uint32_t>> find_unreachable(
    const Network& network, std::span<const Station> stations);

/// Replaces the content of each station's table with the shortest paths to all addresses. A path
/// has the fewest cables and passes only through nodes that forward. Refuses if a station cannot
/// reach another one's address, or if two stations have the same address.
[[nodiscard]] Result<void> route_shortest(const Network& network,
                                          std::span<const Station> stations);

/// Adds `group` to the tables of the stations on its tree: the paths of its members to the first
/// receiver. The group's address chooses among equal paths, so groups spread over spines. Refuses
/// if a member cannot be reached or there is no receiver.
[[nodiscard]] Result<void> route_group(const Network& network, std::span<const Station> stations,
                                       const Group& group);

}  // namespace tributary::net

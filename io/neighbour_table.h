// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where the neighbours are: IP address to device and MAC address, learned from what they send.
///
/// Shapes:  One table of at most `entries_max` for a port, and a NeighbourCache for each queue that
///          holds what that queue uses. A full table forgets its oldest entry; a neighbour that
///          still sends is learned again by its next packet.
/// Threads: NeighbourTable is for all queues (a lock, taken when something is new). A
///          NeighbourCache belongs to its queue's thread; a hit reads one word that is shared, and
///          writes none.
/// Memory:  Bounded by entries_max, taken in the constructors.
/// Tests:   tests/io/neighbour_table_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/endpoint.h"
#include "io/udp_frame.h"

namespace tributary::io {

/// Where a frame goes next.
struct Hop {
  uint32_t device = 0;  ///< Index of the port's device.
  MacAddress mac{};
  friend bool operator==(const Hop&, const Hop&) = default;
};

/// The address alone is the key; ports and scopes play no part.
struct AddressHash {
  size_t operator()(const Endpoint& endpoint) const;
};
struct AddressEqual {
  bool operator()(const Endpoint& a, const Endpoint& b) const;
};

class NeighbourTable {
 public:
  explicit NeighbourTable(uint32_t entries_max);

  void learn(const Endpoint& address, const Hop& hop);
  [[nodiscard]] std::optional<Hop> find(const Endpoint& address) const;
  [[nodiscard]] uint32_t size() const;

  /// Changes with every change of the table. Acquire pairs with the release in learn(): who sees
  /// a version finds at least what was learned before it.
  [[nodiscard]] uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  const uint32_t entries_max_;
  mutable std::mutex mutex_;  ///< Guards the next three.
  std::unordered_map<Endpoint, Hop, AddressHash, AddressEqual> hops_;
  std::vector<Endpoint> order_;  ///< A ring of at most entries_max_ addresses, oldest at next_.
  uint32_t next_ = 0;
  std::atomic<uint64_t> version_{1};
};

/// A queue's own view of the table.
class NeighbourCache {
 public:
  explicit NeighbourCache(NeighbourTable& table);

  /// Notes that `address` is at `hop`; cheap when that is known.
  void learn(const Endpoint& address, const Hop& hop);
  [[nodiscard]] std::optional<Hop> find(const Endpoint& address);

 private:
  /// Direct-mapped: more workers than this only pay the lock now and then.
  static constexpr uint32_t kSlots = 1024;

  struct Slot {
    Endpoint address;
    Hop hop;
    uint64_t version = 0;  ///< Of the table when this was copied; 0 never was.
  };
  Slot& slot_of(const Endpoint& address);

  NeighbourTable& table_;
  std::vector<Slot> slots_;
};

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Maps the IP addresses of neighbours to device and MAC address, and tracks open questions.
///
/// Model:   RFC 4861's neighbour cache, for IPv4 too. An entry is reachable for kReachableFor after
///          its neighbour was last heard, then stale. A stale entry is still used, but the port
///          asks for it. If no answer comes, the entry is forgotten.
/// Shapes:  One table of at most `entries_max` per port, and one NeighbourCache per queue.
/// Threads: All queues share a NeighbourTable. It takes a lock for new facts, and once in
///          kConfirmEvery for each neighbour that sends. A NeighbourCache belongs to its queue's
///          thread; a hit reads one shared word and writes none.
/// Memory:  Bounded by entries_max, kPinnedMax and kQuestionsMax.
/// Tests:   tests/io/frames/neighbour_table_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/endpoint.h"
#include "base/time.h"
#include "io/frames/udp_frame.h"

namespace tributary::io {

/// How long a neighbour counts as reachable after it was heard. Source: RFC 4861 §10,
/// REACHABLE_TIME. It is not randomised: each neighbour's time starts with its own last packet.
inline constexpr Duration kReachableFor = seconds(30);
/// Interval at which the table records that a sending neighbour was heard. Assumed: far below
/// kReachableFor, far above the time between two packets.
inline constexpr Duration kConfirmEvery = seconds(1);
/// Interval at which a cache reports a stale neighbour to its user.
inline constexpr Duration kStaleReportEvery = milliseconds(250);
/// Largest number of addresses that a port asks for at once.
inline constexpr uint32_t kQuestionsMax = 16;

/// Neighbours that a port learns: four times the largest number of workers of a job, and their
/// routers.
inline constexpr uint32_t kNeighboursMax = 1100;
/// Largest number of pinned addresses: 64 sessions of 32 workers.
inline constexpr uint32_t kPinnedMax = 2048;

/// The next hop of a frame.
struct Hop {
  uint32_t device = 0;  ///< Index of the port's device.
  MacAddress mac{};
  friend bool operator==(const Hop&, const Hop&) = default;
};

/// Hashes and compares the address alone, without ports and scopes.
struct AddressHash {
  size_t operator()(const Endpoint& endpoint) const;
};
struct AddressEqual {
  bool operator()(const Endpoint& a, const Endpoint& b) const;
};

/// The table's knowledge of an address.
struct Neighbour {
  Hop hop;
  Instant last_heard_at;  ///< When the neighbour was last heard.
  bool pinned = false;    ///< See NeighbourTable::pin().

  [[nodiscard]] bool is_stale(Instant now) const {
    return !pinned && now - last_heard_at >= kReachableFor;
  }
};

/// If the table is full, a new entry replaces the oldest. A replaced neighbour that still sends is
/// learned once more from its next packet. The queue that first needs an address opens the question
/// for it; the answer may arrive at any queue.
class NeighbourTable {
 public:
  explicit NeighbourTable(uint32_t entries_max);

  /// Records that `address` was heard at `now`, from `hop`.
  void learn(const Endpoint& address, const Hop& hop, Instant now);
  /// Removes the address, unless it is pinned.
  void forget(const Endpoint& address);
  /// Fixes the MAC address of `address`, for a neighbour that answers no questions. A pinned entry
  /// is never stale, forgotten or replaced; only its device is learned, from frames with this MAC
  /// address. @return false if kPinnedMax addresses are pinned.
  bool pin(const Endpoint& address, const MacAddress& mac);
  void unpin(const Endpoint& address);
  [[nodiscard]] std::optional<Neighbour> find(const Endpoint& address) const;
  [[nodiscard]] uint32_t size() const;

  /// Opens a question for `address`. Returns false if one is open already, or too many are.
  [[nodiscard]] bool open_question(const Endpoint& address);
  void close_question(const Endpoint& address);
  /// Closes the question for `address` and learns the answer. Learns nothing if there was none.
  bool take_answer(const Endpoint& address, const Hop& hop, Instant now);

  /// Returns a number that changes with every change of the table. Acquire pairs with the release
  /// in learn(): a thread that sees a version also sees everything learned before it.
  [[nodiscard]] uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  const uint32_t entries_max_;
  void learn_locked(const Endpoint& address, const Hop& hop, Instant now);
  void leave_ring(const Endpoint& address);

  mutable std::mutex mutex_;  ///< Guards the next five members.
  std::unordered_map<Endpoint, Neighbour, AddressHash, AddressEqual> neighbours_;
  std::vector<Endpoint> order_;  ///< A ring of at most entries_max_ addresses, oldest at next_.
  uint32_t next_ = 0;
  uint32_t pinned_count_ = 0;
  std::vector<Endpoint> questions_;  ///< At most kQuestionsMax.
  std::atomic<uint64_t> version_{1};
};

/// A queue's own view of the table.
class NeighbourCache {
 public:
  explicit NeighbourCache(NeighbourTable& table);

  /// Records that `address` was heard from `hop`; cheap if the cache knows that.
  void learn(const Endpoint& address, const Hop& hop, Instant now);

  struct CachedHop {
    Hop hop;
    /// True if the neighbour was not heard for long. Reported once in kStaleReportEvery, so that
    /// the look-ups in between stay cheap.
    bool is_stale = false;
  };
  [[nodiscard]] std::optional<CachedHop> find(const Endpoint& address, Instant now);

 private:
  /// Direct-mapped: with more workers than slots, some look-ups take the table's lock.
  static constexpr uint32_t kSlots = 1024;

  struct Slot {
    Endpoint address;
    Hop hop;
    uint64_t version = 0;      ///< The table's version when this was copied; 0 for an empty slot.
    Instant valid_until;       ///< The copy is valid until then.
    Instant confirm_again_at;  ///< Until then, a packet tells the table nothing new.
  };
  Slot& slot_of(const Endpoint& address);

  NeighbourTable& table_;
  std::vector<Slot> slots_;
};

}  // namespace tributary::io

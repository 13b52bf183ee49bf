// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where the neighbours are: IP address to device and MAC address, learned from what they send;
/// and which of them are being asked for.
///
/// Model:   RFC 4861's neighbour cache, for IPv4 too. An entry is reachable for kReachableFor after
///          its neighbour was last heard of, then stale: still used, and asked again. Whoever does
///          not answer is forgotten.
/// Shapes:  One table of at most `entries_max` for a port, and a NeighbourCache for each queue that
///          holds what that queue uses. A full table forgets its oldest entry; a neighbour that
///          still sends is learned again by its next packet. At most kQuestionsMax addresses are
///          asked for at once, each by the queue that needed it first, and any queue may be the one
///          that the answer comes to.
/// Threads: NeighbourTable is for all queues (a lock, taken when something is new, and once in
///          kConfirmEvery for each neighbour that sends). A NeighbourCache belongs to its queue's
///          thread; a hit reads one word that is shared, and writes none.
/// Memory:  Bounded by entries_max and kQuestionsMax, taken in the constructors.
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

/// How long a neighbour counts as reachable after it was heard of. Source: RFC 4861 §10,
/// REACHABLE_TIME; not spread at random, since each neighbour's time begins with its own last word.
inline constexpr Duration kReachableFor = seconds(30);
/// How often a neighbour that sends is noted down as heard of. Assumed: far below kReachableFor,
/// far above the time between two packets.
inline constexpr Duration kConfirmEvery = seconds(1);
/// How often a stale neighbour is reported to who uses it.
inline constexpr Duration kLookAgainAfter = milliseconds(250);
/// Addresses that a port asks for at once.
inline constexpr uint32_t kQuestionsMax = 16;

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

/// What is known of an address.
struct Neighbour {
  Hop hop;
  Instant heard_at;  ///< When it was last heard of.

  [[nodiscard]] bool is_stale(Instant now) const { return now - heard_at >= kReachableFor; }
};

class NeighbourTable {
 public:
  explicit NeighbourTable(uint32_t entries_max);

  /// Notes that `address` was heard of at `now`, from `hop`.
  void learn(const Endpoint& address, const Hop& hop, Instant now);
  void forget(const Endpoint& address);
  [[nodiscard]] std::optional<Neighbour> find(const Endpoint& address) const;
  [[nodiscard]] uint32_t size() const;

  /// Begins to ask for `address`. False if another queue does so already, or too many are open.
  [[nodiscard]] bool open_question(const Endpoint& address);
  void close_question(const Endpoint& address);
  /// As learn(), and closes the question, if there is one; else nothing is learned.
  bool take_answer(const Endpoint& address, const Hop& hop, Instant now);

  /// Changes with every change of the table. Acquire pairs with the release in learn(): who sees
  /// a version finds at least what was learned before it.
  [[nodiscard]] uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  const uint32_t entries_max_;
  void learn_locked(const Endpoint& address, const Hop& hop, Instant now);

  mutable std::mutex mutex_;  ///< Guards the next four.
  std::unordered_map<Endpoint, Neighbour, AddressHash, AddressEqual> neighbours_;
  std::vector<Endpoint> order_;  ///< A ring of at most entries_max_ addresses, oldest at next_.
  uint32_t next_ = 0;
  std::vector<Endpoint> questions_;  ///< At most kQuestionsMax.
  std::atomic<uint64_t> version_{1};
};

/// A queue's own view of the table.
class NeighbourCache {
 public:
  explicit NeighbourCache(NeighbourTable& table);

  /// Notes that `address` was heard of from `hop`; cheap when that is known.
  void learn(const Endpoint& address, const Hop& hop, Instant now);

  struct Found {
    Hop hop;
    /// It was not heard of for long. Said once in kLookAgainAfter: between, a look-up costs as
    /// little as any.
    bool is_stale = false;
  };
  [[nodiscard]] std::optional<Found> find(const Endpoint& address, Instant now);

 private:
  /// Direct-mapped: more workers than this only pay the lock now and then.
  static constexpr uint32_t kSlots = 1024;

  struct Slot {
    Endpoint address;
    Hop hop;
    uint64_t version = 0;      ///< Of the table when this was copied; 0 never was.
    Instant look_again_at;     ///< The copy may be found until then …
    Instant confirm_again_at;  ///< … and a packet tells the table nothing new until then.
  };
  Slot& slot_of(const Endpoint& address);

  NeighbourTable& table_;
  std::vector<Slot> slots_;
};

}  // namespace tributary::io

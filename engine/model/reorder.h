// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Reorder Engine: threads finish in any order, but packets of one flow leave in the order of
/// their arrival (Trio paper §2.1, "holds the updated packet head until all earlier arriving
/// packets in the same flow have been processed").
///
/// Bounds:  Config::packet_count packets from arrive() until they leave; further ones are refused
///          and counted. A train of k packets is one entry that takes k places. arrive() costs
///          O(1), finish() O(1) for each packet that leaves.
/// Threads: Owned by one engine thread. Nothing here is atomic.
/// Errors:  A ticket finished twice is a bug. A ticket never finished blocks its queue.
/// Memory:  Grows with the most packets inside so far.
/// Tests:   tests/engine/model/reorder_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/model/packet_buffer.h"

namespace tributary::engine {

/// A packet's place in its flow, from arrive() to finish().
struct ReorderTicket {
  uint32_t entry;
  uint32_t use;  ///< Counts the entry's packets, to detect a stale ticket.
};

/// Each flow maps to one of a fixed number of queues: its number modulo the queue count. A queue
/// leaves in arrival order, so two flows in one queue keep their order but may wait for each other.
/// Flows in different queues never wait for each other.
///
///   queue:  [ d: in work ] [ e: done ] [ f: done ] [ g: in work ]
///   finish(d) -> d, e and f leave, in this order; g stays.
class ReorderEngine {
 public:
  struct Config {
    uint32_t packet_count = 0;  ///< Most packets between arrival and departure; at least 1.
    uint32_t queue_count = 0;   ///< At least 1.
  };
  struct Counters {
    uint64_t arrived = 0;
    uint64_t refused = 0;  ///< Arrived while packet_count packets were inside.
    uint64_t left = 0;     ///< Passed to the sink.
    uint64_t ended = 0;    ///< Dropped or consumed: ended without a packet to send.
    uint64_t held = 0;     ///< Finished before an earlier packet of their queue.
  };

  explicit ReorderEngine(const Config& config);

  /// Records the arrival of a packet of `flow` (any number; a hash of its fields).
  /// @param train Packets that it stands for, at least 1; all of them enter or none.
  /// @return its ticket, or nullopt if the engine has too few places: it is refused and counted.
  [[nodiscard]] std::optional<ReorderTicket> arrive(uint64_t flow, uint32_t train = 1);

  /// Ends a packet's work. Calls `sink(PacketHandle)` for every packet that may leave as a result,
  /// in order of arrival. The sink takes over their references and must not call this engine.
  ///
  /// @param packet The packet to send; an unset handle if it was dropped or consumed.
  template <class Sink>
  void finish(ReorderTicket ticket, PacketHandle packet, Sink&& sink) {
    Queue& queue = finish_entry(ticket, packet);
    while (head_is_done(queue)) {
      const PacketHandle leaving = pop(queue);
      if (leaving.is_set()) sink(leaving);
    }
  }

  /// Returns the packets inside: in work, or done and held. A train of k counts k times.
  [[nodiscard]] uint32_t inside_count() const { return inside_count_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    PacketHandle packet;
    uint32_t next = kNone;  ///< Next in its queue or in the free list.
    uint32_t queue = 0;
    uint32_t use = 0;
    uint32_t train = 1;
    bool in_work = false;
  };
  struct Queue {
    uint32_t first = kNone;
    uint32_t last = kNone;
  };

  /// Takes an entry from the free list, or adds one.
  uint32_t take_entry();
  Queue& finish_entry(ReorderTicket ticket, PacketHandle packet);
  [[nodiscard]] bool head_is_done(const Queue& queue) const {
    return queue.first != kNone && !entries_[queue.first].in_work;
  }
  PacketHandle pop(Queue& queue);

  const uint32_t packet_count_;
  std::vector<Entry> entries_;  ///< The entries used so far, at most packet_count.
  std::vector<Queue> queues_;   ///< Shape [queue_count].
  uint32_t first_free_ = kNone;
  uint32_t inside_count_ = 0;
  Counters counters_;
};

}  // namespace tributary::engine

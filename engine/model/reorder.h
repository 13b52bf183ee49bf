// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Reorder Engine: threads finish in any order, packets of one flow leave in the order in which
/// they arrived (Trio paper §2.1, "holds the updated packet head until all earlier arriving packets
/// in the same flow have been processed").
///
/// Model:   Each flow maps to one of a fixed number of queues by its number modulo the queues. A
///          queue is served in arrival order, so two flows that share one keep their order too and
///          only may wait for each other. Flows of different queues never wait.
///
///             queue:  [ d: in work ] [ e: done ] [ f: done ] [ g: in work ]
///             finish(d) -> d, e and f leave, in this order; g stays.
///
/// Bounds:  Config::packet_count packets between arrive() and their leaving; one more is refused
///          and counted. arrive() costs O(1), finish() O(1) for each packet that leaves.
/// Threads: Owned by one engine thread. Nothing here is atomic.
/// Errors:  A ticket that is finished twice is a bug. One that is never finished holds its queue.
/// Memory:  All of it is taken in the constructor.
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
  uint32_t use;  ///< Which of the entry's packets.
};

class ReorderEngine {
 public:
  struct Config {
    uint32_t packet_count = 0;  ///< Packets between arrival and departure, at most; at least 1.
    uint32_t queue_count = 0;   ///< Flows that do not wait for each other, at most; at least 1.
  };
  struct Counters {
    uint64_t arrived = 0;
    uint64_t refused = 0;  ///< Came while packet_count packets were inside.
    uint64_t left = 0;     ///< Handed to the sink.
    uint64_t ended = 0;    ///< Dropped or consumed: left without a packet.
    uint64_t held = 0;     ///< Finished before an earlier packet of their queue.
  };

  explicit ReorderEngine(const Config& config);

  /// A packet of `flow` has arrived (any number; a hash of its fields).
  /// @return its ticket, or nothing when the engine is full: the packet cannot be taken in;
  /// counted.
  [[nodiscard]] std::optional<ReorderTicket> arrive(uint64_t flow);

  /// The packet's thread has ended. Calls `sink(PacketHandle)` for every packet that may now leave,
  /// in order of arrival; the sink takes over their references and must not call this engine.
  ///
  /// @param packet What leaves; a handle that is not set when the packet was dropped or consumed.
  template <class Sink>
  void finish(ReorderTicket ticket, PacketHandle packet, Sink&& sink) {
    Queue& queue = finish_entry(ticket, packet);
    while (head_is_done(queue)) {
      const PacketHandle leaving = pop(queue);
      if (leaving.is_set()) sink(leaving);
    }
  }

  /// Packets inside: in work, or done and held.
  [[nodiscard]] uint32_t inside_count() const { return inside_count_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    PacketHandle packet;
    uint32_t next = kNone;  ///< In its queue, or among the free ones.
    uint32_t queue = 0;
    uint32_t use = 0;
    bool in_work = false;
  };
  struct Queue {
    uint32_t first = kNone;
    uint32_t last = kNone;
  };

  Queue& finish_entry(ReorderTicket ticket, PacketHandle packet);
  [[nodiscard]] bool head_is_done(const Queue& queue) const {
    return queue.first != kNone && !entries_[queue.first].in_work;
  }
  PacketHandle pop(Queue& queue);

  std::vector<Entry> entries_;  ///< Shape [packet_count].
  std::vector<Queue> queues_;   ///< Shape [queue_count].
  uint32_t first_free_ = kNone;
  uint32_t inside_count_ = 0;
  Counters counters_;
};

}  // namespace tributary::engine

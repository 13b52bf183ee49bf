// SPDX-License-Identifier: Apache-2.0
/// @file
/// State changes of jobs and ranks, for the server's log.
///
/// Model:   A shard notes an event in a bounded ring, and one other thread takes it. If the ring is
///          full, the event is lost and counted, so a slow reader never delays a core.
/// Threads: EventRing::put() belongs to the shard's core, take() to one other thread.
/// Memory:  Taken in the constructor.
/// Tests:   tests/apps/trio_ml/event_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "apps/trio_ml/records.h"
#include "base/endpoint.h"
#include "base/time.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {

enum class EventKind : uint8_t {
  kRankJoined,      ///< A rank waits for the session to start.
  kRankWithdrawn,   ///< The rank has cancelled its join.
  kJoinRefused,     ///< `reason` tells why.
  kSessionStarted,  ///< `value`: sources.
  kRankLeft,        ///< `value`: the aggregator that it has lost, as in its kLeave; 0: none.
                    ///< `reason` kEvicted: removed by an operator.
  kSessionEnded,    ///< `reason`: kPeerLeft: all have left; kPeerSilent: the others are silent;
                    ///< kSessionLost: at the upper aggregator; kEvicted: an
                    ///< operator has removed the last member; kJobRemoved; kServerStopped.
  kStraggler,       ///< A block aged out without the rank. `value`: block_id.
  kPermanent,       ///< Blocks do not wait for the rank.
  kReturned,        ///< Blocks wait for it as before.
  // A member has sent nothing for silent_ms. `value`: for how many milliseconds.
  kSilenceWaited,    ///< The others wait for it.
  kSilenceExcluded,  ///< The others go on without it.
  kSilenceEnded,     ///< The sources that wait for it end.
  kResumed,          ///< It has resumed sending.
  kUpstreamJoined,   ///< The upper aggregator has started its session.
  kUpstreamRefused,  ///< `reason` tells why.
  kUpstreamLost,     ///< The upper aggregator does not know the session, as after its restart.
                     ///< `reason` kServerStopped, kJobRemoved or kEvicted: it ended the session.
  kUpstreamSilent,   ///< It does not answer. `value`: for how many milliseconds.
  kUpstreamHeard,    ///< It has resumed answering.
};
/// Tells whether a stranger can cause the event as often as it sends packets.
[[nodiscard]] constexpr bool can_strangers_cause(EventKind kind) {
  return kind == EventKind::kRankJoined || kind == EventKind::kRankWithdrawn ||
         kind == EventKind::kJoinRefused;
}

struct Event {
  EventKind kind = EventKind::kRankJoined;
  uint8_t job_id = 0;
  wire::Reason reason = wire::Reason::kNone;
  uint32_t value = 0;
  Instant at{};
  SourceMask ranks{};  ///< Empty: the event is about the job.
  Endpoint address{};  ///< Not set: unknown.
};

class EventRing {
 public:
  /// Events that a core may note before the reader takes them. Assumed: all ranks of a large job
  /// join, start and leave within one of the reader's pauses.
  static constexpr uint32_t kEventsMax = 1024;

  /// Stores the event, or counts it as lost. Never waits.
  void put(const Event& event) {
    const uint64_t put = put_.load(std::memory_order_relaxed);  // Relaxed: its only writer.
    // Acquire: pairs with the release in take(), so the reader has finished with the place.
    if (put - taken_.load(std::memory_order_acquire) == kEventsMax) return lose();
    events_[put % kEventsMax] = event;
    put_.store(put + 1, std::memory_order_release);  // Pairs with the acquire in take().
  }

  /// Moves the oldest event to `event`. @return false if there is none.
  [[nodiscard]] bool take(Event& event) {
    const uint64_t taken = taken_.load(std::memory_order_relaxed);  // Relaxed: its only writer.
    if (taken == put_.load(std::memory_order_acquire)) return false;
    event = events_[taken % kEventsMax];
    taken_.store(taken + 1, std::memory_order_release);
    return true;
  }

  /// Counts an event as lost.
  void lose() { lost_.fetch_add(1, std::memory_order_relaxed); }  // Relaxed: a count for people.

  /// Returns the lost events, for example those that found the ring full. Any thread.
  [[nodiscard]] uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  std::array<Event, kEventsMax> events_{};
  // Written by the core; apart from the reader's word, so that neither takes the other's line.
  alignas(64) std::atomic<uint64_t> put_{0};
  std::atomic<uint64_t> lost_{0};
  alignas(64) std::atomic<uint64_t> taken_{0};  ///< Written by the reader.
};

}  // namespace tributary::trio_ml

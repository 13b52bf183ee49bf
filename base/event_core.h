// SPDX-License-Identifier: Apache-2.0
/// @file
/// The event core of virtual time: everything modelled (links, PPEs, workers) schedules its events
/// here, and runs when its turn comes.
///
/// Model:   Events are executed in the order of (time, priority, sequence); the sequence counts
///          schedule() calls, so equal events run in the order in which they were asked for. Which
///          queue holds them cannot change a result: a calendar queue, or a binary heap as the
///          reference.
/// Units:   Instants of virtual time, which starts at 0.
/// Threads: One. A run of virtual time belongs to one thread; runs share nothing.
/// Errors:  An event in the past, or later than 1.4 years (2^62 ticks), is a bug. There is no way
/// to cancel: a target that no longer wants
///          an event ignores it when it comes (put a number in the argument to tell them apart).
/// Memory:  40 bytes an event; grows to the most events that are pending at once.
/// Tests:   tests/base/event_core_test.cc
#pragma once

#include <cstdint>
#include <memory>

#include "base/time.h"

namespace tributary {

/// Who goes first among events of one instant.
enum class EventPriority : uint8_t {
  kArrival,  ///< A packet's last bit arrives.
  kMachine,  ///< A switch's inside: threads, memory, timers.
  kHost,     ///< Workers.
  kControl,  ///< The experiment itself: faults, ends.
};

/// What an event is for. The object must live until its last event has come.
class EventTarget {
 public:
  virtual void on_event(uint64_t argument) = 0;

 protected:
  ~EventTarget() = default;
};

class EventCore {
 public:
  enum class Queue : uint8_t { kCalendar, kHeap };

  explicit EventCore(Queue queue = Queue::kCalendar);
  ~EventCore();
  EventCore(const EventCore&) = delete;
  EventCore& operator=(const EventCore&) = delete;

  [[nodiscard]] Instant now() const { return now_; }

  /// Calls target.on_event(argument) at `at`. @pre at >= now(), and not 1.4 years or later.
  void schedule(Instant at, EventPriority priority, EventTarget& target, uint64_t argument);

  /// Executes the next event. @return false if there is none.
  bool run_next();
  /// Executes all events up to and including `limit`; afterwards now() is `limit`.
  void run_until(Instant limit);
  /// Executes events until `done()`, asked after each, or until none is left or the next is later
  /// than `limit`. @return done().
  template <class F>
  bool run_until(Instant limit, F&& done) {
    while (!done()) {
      if (next_at() > limit) return false;
      run_next();
    }
    return true;
  }

  /// Time of the next event; never() if there is none.
  [[nodiscard]] Instant next_at() const;
  [[nodiscard]] uint64_t pending_count() const;
  [[nodiscard]] uint64_t executed_count() const { return executed_count_; }

 private:
  struct Pending;
  std::unique_ptr<Pending> pending_;
  Instant now_;
  uint64_t sequence_ = 0;
  uint64_t executed_count_ = 0;
};

}  // namespace tributary

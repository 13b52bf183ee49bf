// SPDX-License-Identifier: Apache-2.0
/// @file
/// The event core of virtual time: everything modelled (links, PPEs, workers) schedules its events
/// here.
///
/// Model:   Events run in the order of (time, priority, sequence). The sequence counts schedule()
///          calls, so events equal in time and priority run in the order of their calls.
/// Units:   Instants of virtual time, which starts at 0.
/// Threads: One. A run of virtual time belongs to one thread; runs share nothing.
/// Errors:  An event in the past, or later than 1.4 years (2^62 ticks), is a bug.
/// Memory:  40 bytes an event; grows to the peak number of pending events.
/// Tests:   tests/base/event_core_test.cc
#pragma once

#include <cstdint>
#include <memory>

#include "base/time.h"

namespace tributary {

/// The order of events at one instant.
enum class EventPriority : uint8_t {
  kArrival,  ///< A packet's last bit arrives.
  kMachine,  ///< Inside a switch: threads, memory, timers.
  kHost,     ///< Workers.
  kControl,  ///< The experiment itself: its faults and its end.
};

/// Receives events. The object must live until its last event has run.
class EventTarget {
 public:
  virtual void on_event(uint64_t argument) = 0;

 protected:
  ~EventTarget() = default;
};

/// The queue cannot change a result: it is a calendar queue, or a binary heap as the reference.
/// Events cannot be cancelled. A target ignores an obsolete event; a number in the
/// argument tells its events apart.
class EventCore {
 public:
  enum class Queue : uint8_t { kCalendar, kHeap };

  explicit EventCore(Queue queue = Queue::kCalendar);
  ~EventCore();
  EventCore(const EventCore&) = delete;
  EventCore& operator=(const EventCore&) = delete;

  [[nodiscard]] Instant now() const { return now_; }

  /// Calls target.on_event(argument) at `at`. @pre at >= now(), and below 1.4 years.
  void schedule(Instant at, EventPriority priority, EventTarget& target, uint64_t argument);

  /// Runs the next event. @return false if there is none.
  bool run_next();
  /// Runs all events up to and including `limit`; afterwards now() is `limit`.
  void run_until(Instant limit);
  /// Runs events until `done()` is true, no event is left, or the next one is later than `limit`.
  /// Calls `done()` before each event. @return its last value.
  template <class F>
  bool run_until(Instant limit, F&& done) {
    while (!done()) {
      if (next_at() > limit) return false;
      run_next();
    }
    return true;
  }

  /// Returns the time of the next event; never() if there is none.
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

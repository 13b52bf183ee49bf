// SPDX-License-Identifier: Apache-2.0
/// @file
/// A binary heap of events: the plain queue, which the calendar queue is compared with, and which
/// it uses for its odd ends.
///
/// Cost:    O(log n) for push and pop.
/// Threads: One.
/// Memory:  Grows to the most events that are pending at once.
/// Tests:   tests/base/event_core_test.cc
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/event.h"

namespace tributary {

class EventHeap {
 public:
  void push(const Event& event) {
    events_.push_back(event);
    std::push_heap(events_.begin(), events_.end(), IsLater());
  }
  /// The next event. @pre not empty().
  [[nodiscard]] const Event& front() const { return events_.front(); }
  /// Takes the next event out. @pre not empty().
  Event pop() {
    std::pop_heap(events_.begin(), events_.end(), IsLater());
    const Event event = events_.back();
    events_.pop_back();
    return event;
  }
  [[nodiscard]] bool empty() const { return events_.empty(); }
  [[nodiscard]] uint64_t size() const { return events_.size(); }
  /// All events, in no useful order; for whoever moves them elsewhere.
  [[nodiscard]] std::vector<Event> take_all() { return std::exchange(events_, {}); }

 private:
  std::vector<Event> events_;
};

}  // namespace tributary

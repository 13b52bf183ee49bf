// SPDX-License-Identifier: Apache-2.0
/// @file
/// A binary heap of events. It is the reference for the calendar queue, which also uses it for the
/// events that fit no page.
///
/// Cost:    O(log n) for push and pop.
/// Threads: One.
/// Memory:  Grows to the peak number of pending events.
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
  /// Returns the next event. @pre not empty().
  [[nodiscard]] const Event& front() const { return events_.front(); }
  /// Removes the next event. @pre not empty().
  Event pop() {
    std::pop_heap(events_.begin(), events_.end(), IsLater());
    const Event event = events_.back();
    events_.pop_back();
    return event;
  }
  [[nodiscard]] bool empty() const { return events_.empty(); }
  [[nodiscard]] uint64_t size() const { return events_.size(); }
  /// Removes all events, in no particular order.
  [[nodiscard]] std::vector<Event> take_all() { return std::exchange(events_, {}); }

 private:
  std::vector<Event> events_;
};

}  // namespace tributary

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A calendar queue of events: constant time for push and pop where a heap takes O(log n).
///
/// Model:   Time is cut into days of 2^day_bits ticks. Each of the next 2^page_bits days has a
///          page, an unsorted list. A day's events are sorted once and popped from the end.
/// Order:   Only event counts and virtual time decide when to resize, so a run always resizes at
///          the same places. The order of events does not depend on it.
/// Source:  R. Brown, "Calendar Queues", CACM 31(10), 1988; the sorted day is the ladder queue's
///          bottom (Tang, Goh, Thng, ACM TOMACS 15(3), 2005).
/// Threads: One.
/// Memory:  40 bytes an event and 4 bytes a page, grown to the most events pending at once.
/// Tests:   tests/base/event_core_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "base/event.h"
#include "base/event_heap.h"

namespace tributary {

/// Holds each pending event in one of four places:
///
///   today_ (sorted) + extra_ (heap) | pages_[...] days ahead | far_ (heap)
///
/// extra_ holds events that are pushed for the current day, or for a day before it if the queue has
/// opened a day ahead of time. far_ holds events beyond the last page, until their day has a page.
///
/// Every few thousand events the queue adjusts its sizes. A day becomes four to eight mean times
/// between events; the number of pages becomes the number of pending events. So the pages reach
/// over several mean lead times. While few events are pending, all of them stay in extra_, which is
/// faster then.
class CalendarQueue {
 public:
  CalendarQueue();

  /// @pre event.at is not before the last popped event.
  void push(const Event& event) {
    size_++;
    if (is_small_) {
      if (extra_.size() < kSmallMax) return extra_.push(event);
      leave_small();
    }
    const int64_t day = day_of(event);
    if (day <= today_day_) return extra_.push(event);
    put_ahead(event, day);
  }

  /// Returns the next event, or nullptr. Valid until the next call.
  [[nodiscard]] const Event* front() {
    if (today_.empty() && extra_.empty() && !open_next_day()) return nullptr;
    return takes_extra() ? &extra_.front() : &today_.back();
  }

  /// Removes the next event. @pre front() != nullptr, called since the last push or pop.
  Event pop() {
    size_--;
    pops_++;
    if (takes_extra()) return extra_.pop();
    const Event event = today_.back();
    today_.pop_back();
    return event;
  }

  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  /// Most events of a small queue. Measured with `tributary bench net`: 18 pending events are a
  /// tenth faster in the heap, 1,700 are a quarter slower.
  static constexpr uint64_t kSmallMax = 64;

  /// An event on a page, in the page's singly linked list.
  struct Entry {
    Event event;
    uint32_t next;
  };

  [[nodiscard]] int64_t day_of(const Event& event) const {
    return event.at.since_start().ticks() >> day_bits_;
  }
  [[nodiscard]] bool takes_extra() const {
    return !extra_.empty() && (today_.empty() || IsLater()(today_.back(), extra_.front()));
  }
  void put_ahead(const Event& event, int64_t day);
  /// Sorts the next day with events into today_. @return false if there is none.
  bool open_next_day();
  /// Returns the first day after today_day_ whose page is not empty. @pre a page is not empty.
  [[nodiscard]] int64_t next_day_on_pages() const;
  void take_far_within_reach();
  void resize_if_due();
  void rebuild(uint32_t day_bits, uint32_t page_bits);
  [[nodiscard]] std::vector<Event> take_all_ahead();
  void enter_small();
  void leave_small();

  std::vector<Event> today_;  ///< Latest first.
  EventHeap extra_;
  bool is_small_ = true;    ///< All events are in extra_.
  int64_t today_day_ = -1;  ///< Pages hold days today_day_ + 1 … today_day_ + pages.
  uint32_t day_bits_;
  uint32_t page_bits_ = 0;
  std::vector<uint32_t> pages_;   ///< Shape [2^page_bits_]: first entry of each list.
  std::vector<uint64_t> filled_;  ///< Shape [2^page_bits_ / 64]: bits of non-empty pages.
  std::vector<Entry> entries_;
  uint32_t entries_free_ = kNone;
  uint64_t on_pages_ = 0;
  EventHeap far_;
  uint64_t size_ = 0;
  uint64_t pops_ = 0;   ///< Since the last check of the sizes.
  Instant checked_at_;  ///< Virtual time of that check.
};

}  // namespace tributary

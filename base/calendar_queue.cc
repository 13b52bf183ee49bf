// SPDX-License-Identifier: Apache-2.0
#include "base/calendar_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"

namespace tributary {
namespace {

constexpr uint32_t kPageBitsMin = 6;  // One word of filled_.
constexpr uint32_t kPageBitsMax = 20;
constexpr uint32_t kDayBitsStart = 12;  // 41 ns: a packet of 512 bytes at 100 Gbit/s.
constexpr uint32_t kDayBitsMax = 40;    // 11 s.
/// Four to eight mean gaps a day: few enough to sort cheaply, and events become visible early.
constexpr uint64_t kGapsPerDay = 4;
constexpr uint64_t kPagesPerEvent = 1;
/// Events between two checks of the sizes. Moving all pending events costs at most a quarter of it.
constexpr uint64_t kPopsBetweenChecks = 4096;
constexpr uint64_t kPopsPerPending = 4;

uint32_t bits_within(uint64_t value, uint32_t min, uint32_t max) {
  return std::clamp(static_cast<uint32_t>(std::bit_width(value)), min, max);
}

/// Sorts the next event to the end. Most days hold one to three events.
void sort_latest_first(std::vector<Event>& events) {
  if (events.size() < 2) return;
  std::sort(events.begin(), events.end(), IsLater());
}

}  // namespace

CalendarQueue::CalendarQueue() : day_bits_(kDayBitsStart) { rebuild(kDayBitsStart, kPageBitsMin); }

void CalendarQueue::put_ahead(const Event& event, int64_t day) {
  const auto page_count = static_cast<int64_t>(pages_.size());
  if (day - today_day_ > page_count) return far_.push(event);
  uint32_t index = entries_free_;
  if (index == kNone) {
    TRIB_ASSERT(entries_.size() < kNone);
    index = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    entries_free_ = entries_[index].next;
  }
  const auto page = static_cast<uint64_t>(day) & (pages_.size() - 1);
  entries_[index] = {event, pages_[page]};
  pages_[page] = index;
  filled_[page / 64] |= uint64_t{1} << (page % 64);
  on_pages_++;
}

bool CalendarQueue::open_next_day() {
  if (pops_ >= kPopsBetweenChecks) {
    resize_if_due();
    if (is_small_) return !extra_.empty();
  }
  if (on_pages_ == 0) {
    if (far_.empty()) return false;
    today_day_ = day_of(far_.front()) - 1;
    take_far_within_reach();
  }
  today_day_ = next_day_on_pages();
  const auto page = static_cast<uint64_t>(today_day_) & (pages_.size() - 1);
  for (uint32_t index = pages_[page]; index != kNone;) {
    Entry& entry = entries_[index];
    today_.push_back(entry.event);
    const uint32_t next = std::exchange(entry.next, entries_free_);
    entries_free_ = index;
    index = next;
  }
  on_pages_ -= today_.size();
  pages_[page] = kNone;
  filled_[page / 64] &= ~(uint64_t{1} << (page % 64));
  sort_latest_first(today_);
  take_far_within_reach();
  return true;
}

int64_t CalendarQueue::next_day_on_pages() const {
  const auto mask = pages_.size() - 1;
  const auto first = static_cast<uint64_t>(today_day_ + 1) & mask;
  uint64_t word = first / 64;
  uint64_t bits = filled_[word] & (UINT64_MAX << (first % 64));
  while (bits == 0) {
    word = (word + 1) & (filled_.size() - 1);
    bits = filled_[word];
  }
  const uint64_t page = word * 64 + static_cast<uint64_t>(std::countr_zero(bits));
  return today_day_ + 1 + static_cast<int64_t>((page - first) & mask);
}

void CalendarQueue::take_far_within_reach() {
  const auto last_day = today_day_ + static_cast<int64_t>(pages_.size());
  while (!far_.empty() && day_of(far_.front()) <= last_day) {
    const Event event = far_.pop();
    put_ahead(event, day_of(event));
  }
}

void CalendarQueue::resize_if_due() {
  if (pops_ < kPopsPerPending * size_) return;
  if (size_ < kSmallMax / 4) return enter_small();
  // The passed day has no pending events, so virtual time stands at its end.
  const Instant here(Duration::from_ticks((today_day_ + 1) << day_bits_));
  const auto passed = static_cast<uint64_t>(std::max<int64_t>(0, (here - checked_at_).ticks()));
  const uint32_t day_bits =
      passed == 0 ? day_bits_ : bits_within(passed * kGapsPerDay / pops_, 0, kDayBitsMax);
  const uint32_t page_bits = bits_within(size_ * kPagesPerEvent, kPageBitsMin, kPageBitsMax);
  checked_at_ = here;
  pops_ = 0;
  const bool far_off = day_bits + 1 < day_bits_ || day_bits > day_bits_ + 1;
  if (far_off || page_bits > page_bits_ || page_bits + 2 < page_bits_) {
    rebuild(day_bits, page_bits);
  }
}

std::vector<Event> CalendarQueue::take_all_ahead() {
  std::vector<Event> pending = far_.take_all();
  for (const uint32_t first : pages_) {
    for (uint32_t index = first; index != kNone; index = entries_[index].next) {
      pending.push_back(entries_[index].event);
    }
  }
  pages_.assign(pages_.size(), kNone);
  filled_.assign(filled_.size(), 0);
  entries_.clear();
  entries_free_ = kNone;
  on_pages_ = 0;
  return pending;
}

void CalendarQueue::rebuild(uint32_t day_bits, uint32_t page_bits) {
  const std::vector<Event> pending = take_all_ahead();
  // today_ and extra_ are empty here, because a rebuild happens between two days.
  const int64_t ticks_passed = (today_day_ + 1) << day_bits_;
  day_bits_ = day_bits;
  page_bits_ = page_bits;
  today_day_ = (ticks_passed >> day_bits_) - 1;
  pages_.assign(uint64_t{1} << page_bits_, kNone);
  filled_.assign(pages_.size() / 64, 0);
  for (const Event& event : pending) put_ahead(event, day_of(event));
}

void CalendarQueue::enter_small() {
  for (const Event& event : take_all_ahead()) extra_.push(event);
  pops_ = 0;
  is_small_ = true;
}

void CalendarQueue::leave_small() {
  is_small_ = false;
  pops_ = 0;
  checked_at_ = extra_.front().at;
  today_day_ = day_of(extra_.front()) - 1;
  for (const Event& event : extra_.take_all()) put_ahead(event, day_of(event));
}

}  // namespace tributary

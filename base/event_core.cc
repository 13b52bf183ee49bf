// SPDX-License-Identifier: Apache-2.0
#include "base/event_core.h"

#include <algorithm>

#include "base/assert.h"
#include "base/calendar_queue.h"
#include "base/event.h"
#include "base/event_heap.h"

namespace tributary {
namespace {

constexpr Instant kLatest{Duration::from_ticks(int64_t{1} << 62)};

}  // namespace

/// The queue of the chosen kind. The branch always goes the same way, so it costs nothing.
struct EventCore::Pending {
  explicit Pending(Queue queue_kind) : uses_heap(queue_kind == Queue::kHeap) {}

  void push(const Event& event) { uses_heap ? heap.push(event) : calendar.push(event); }
  [[nodiscard]] const Event* front() {
    if (!uses_heap) return calendar.front();
    return heap.empty() ? nullptr : &heap.front();
  }
  Event pop() { return uses_heap ? heap.pop() : calendar.pop(); }

  const bool uses_heap;
  CalendarQueue calendar;
  EventHeap heap;
};

EventCore::EventCore(Queue queue) : pending_(std::make_unique<Pending>(queue)) {}
EventCore::~EventCore() = default;

void EventCore::schedule(Instant at, EventPriority priority, EventTarget& target,
                         uint64_t argument) {
  TRIB_ASSERT(at >= now_ && at < kLatest);
  const uint64_t order = (static_cast<uint64_t>(priority) << kEventSequenceBits) | sequence_++;
  pending_->push({at, order, &target, argument});
}

bool EventCore::run_next() {
  if (pending_->front() == nullptr) return false;
  const Event event = pending_->pop();
  now_ = event.at;
  executed_count_++;
  event.target->on_event(event.argument);
  return true;
}

void EventCore::run_until(Instant limit) {
  for (const Event* next = pending_->front(); next != nullptr && next->at <= limit;
       next = pending_->front()) {
    run_next();
  }
  now_ = std::max(now_, limit);
}

Instant EventCore::next_at() const {
  const Event* next = pending_->front();
  return next == nullptr ? Instant::never() : next->at;
}

uint64_t EventCore::pending_count() const {
  return pending_->uses_heap ? pending_->heap.size() : pending_->calendar.size();
}

}  // namespace tributary

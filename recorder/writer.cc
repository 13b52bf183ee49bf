// SPDX-License-Identifier: Apache-2.0
#include "recorder/writer.h"

namespace tributary::recorder {

void Writer::begin(Kind kind, uint64_t key, Instant now) {
  const auto index = static_cast<uint32_t>(kind);
  if ((open_kinds_ >> index & 1) != 0) end(kind);
  Run& run = runs_[index];
  run.at_ticks.store(now.since_start().ticks(), std::memory_order_relaxed);
  run.first.store(key, std::memory_order_relaxed);
  run.next.store(key + 1, std::memory_order_relaxed);
  open_kinds_ |= 1U << index;
}

void Writer::end(Kind kind) {
  Run& run = runs_[static_cast<uint32_t>(kind)];
  uint64_t first = run.first.load(std::memory_order_relaxed);
  const uint64_t next = run.next.load(std::memory_order_relaxed);
  const int64_t at_ticks = run.at_ticks.load(std::memory_order_relaxed);
  // A time-out may end a whole window within one burst.
  for (; next - first > kRunBlocksMax; first += kRunBlocksMax) {
    ring_.put(to_words(event_of(kind, first, first + kRunBlocksMax, at_ticks)));
  }
  ring_.put(to_words(event_of(kind, first, next, at_ticks)));
  run.next.store(kNoKey, std::memory_order_relaxed);
}

Event Writer::open_run(Kind kind) const {
  const Run& run = runs_[static_cast<uint32_t>(kind)];
  const uint64_t first = run.first.load(std::memory_order_relaxed);
  const uint64_t next = run.next.load(std::memory_order_relaxed);
  const int64_t at_ticks = run.at_ticks.load(std::memory_order_relaxed);
  if (next == kNoKey || next <= first || next - first > kRunBlocksMax) return {};
  Event event = event_of(kind, first, next, at_ticks);
  event.open = true;
  return event;
}

}  // namespace tributary::recorder

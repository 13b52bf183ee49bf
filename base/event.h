// SPDX-License-Identifier: Apache-2.0
/// @file
/// An event of virtual time as the event core's queues store it, and the order of events.
///
/// Shapes: 32 bytes. The order is (time, priority, sequence). Priority and sequence share one word,
///         the priority in its two highest bits, so equal times cost only one more comparison.
/// Tests:  tests/base/event_core_test.cc
#pragma once

#include <cstdint>

#include "base/time.h"

namespace tributary {

class EventTarget;

struct Event {
  Instant at;
  uint64_t order;  ///< priority << kEventSequenceBits | sequence.
  EventTarget* target;
  uint64_t argument;
};
static_assert(sizeof(Event) == 32);

/// 2^62 events at 10 ns each take 1,400 years to compute.
inline constexpr uint32_t kEventSequenceBits = 62;

/// Returns whether `a` runs after `b`. No two events have the same order. It is a type, not a
/// function, so that the library's heaps and sorts can inline it.
struct IsLater {
  [[nodiscard]] bool operator()(const Event& a, const Event& b) const {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }
};

}  // namespace tributary

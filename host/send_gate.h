// SPDX-License-Identifier: Apache-2.0
/// @file
/// Lets the packets of urgent tensors leave before those of others (BytePS §5: parts are sent by
/// priority, within a credit).
///
/// Model:   Each priority has channels of its own. A channel starts no new packets while a channel
///          of a more urgent priority has some that its window admits. Packets in flight go on,
///          and so do repairs: the windows are the credit. A rank never waits for another rank's
///          order, because each channel has a stream of its own.
/// Shapes:  Priorities 0 … kPrioritiesMax - 1; 0 is the most urgent.
/// Threads: Any. A channel that reads an old value sends a burst more, or a wake-up later.
/// Errors:  None.
/// Tests:   tests/host/send_gate_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/assert.h"

namespace tributary::host {

/// Enough for the layers needed first, those needed soon, and the rest. Each takes a channel.
inline constexpr uint32_t kPrioritiesMax = 4;

class SendGate {
 public:
  /// Tells whether a channel of this priority may start new packets.
  [[nodiscard]] bool is_open(uint32_t priority) const {
    for (uint32_t i = 0; i < priority; i++) {
      // Relaxed: no other data depends on it.
      if (ready_[i].load(std::memory_order_relaxed) != 0) return false;
    }
    return true;
  }
  /// Records that one more channel of this priority has packets to start.
  void enter(uint32_t priority) { ready_[priority].fetch_add(1, std::memory_order_relaxed); }
  /// Records that it has none left. @return whether it was the last one of its priority.
  bool leave(uint32_t priority) {
    const uint32_t before = ready_[priority].fetch_sub(1, std::memory_order_relaxed);
    TRIB_ASSERT(before > 0);
    return before == 1;
  }

 private:
  std::array<std::atomic<uint32_t>, kPrioritiesMax> ready_{};
};

}  // namespace tributary::host

// SPDX-License-Identifier: Apache-2.0
/// @file
/// How many packets may be on their way to a port so that it loses none of them.
///
/// Model:   A port holds so many bytes of payload while the thread that reads it has no core. An
///          aggregator's port holds all sources' windows, a worker's the results of one.
/// Units:   Payload bytes, packets of each sender.
/// Threads: Pure functions.
/// Errors:  None.
/// Source:  A window as the sum of what receivers have room for: SwitchML §4.2 (slots). Here the
///          socket's buffer is scarcer than slots are.
/// Tests:   tests/wire/receive_room_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire/trio_ml.h"

namespace tributary::wire {

/// Fewer would wait for the network rather than use it, and a loss is repaired. Assumed.
inline constexpr uint32_t kRoomWindowMin = 8;

/// @param room_bytes 0: enough for any window. @return packets of each of `senders`; 0: no limit.
[[nodiscard]] constexpr uint32_t window_in_room(uint32_t room_bytes, uint32_t gradients,
                                                uint32_t senders) {
  if (room_bytes == 0) return 0;
  const uint32_t packet_bytes = kMessageHeadBytesMax + gradients * kGradientBytes;
  return std::max(room_bytes / packet_bytes / std::max(senders, 1U), kRoomWindowMin);
}
static_assert(window_in_room(3U << 20, 352, 6) == 356);  // 3145728 / 1472 / 6
// Three quarters of what Linux grants unless told otherwise, net.core.rmem_max = 212992.
static_assert(window_in_room(159'744, 352, 4) == 27);
static_assert(window_in_room(159'744, 352, 256) == kRoomWindowMin);
static_assert(window_in_room(0, 352, 4) == 0);

}  // namespace tributary::wire

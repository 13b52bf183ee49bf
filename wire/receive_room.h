// SPDX-License-Identifier: Apache-2.0
/// @file
/// Computes how many packets may be in flight to a port without loss.
///
/// Model:   A port buffers a fixed number of payload bytes while the thread that reads it does not
///          run. An aggregator's port holds the windows of all sources; a worker's port holds the
///          results of one window.
/// Units:   Payload bytes, packets of each sender.
/// Threads: Pure functions.
/// Errors:  None.
/// Source:  SwitchML §4.2 bounds the window by the receivers' slots. Here the socket buffer is the
///          tighter bound.
/// Tests:   tests/wire/receive_room_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire/trio_ml.h"

namespace tributary::wire {

/// A smaller window would wait for the network instead of using it; losses are repaired. Assumed.
inline constexpr uint32_t kRoomWindowMin = 8;

/// Returns the packets that each of `senders` may have in flight; 0: no limit.
/// @param room_bytes Payload bytes that the port can buffer; 0: enough for any window.
[[nodiscard]] constexpr uint32_t window_in_room(uint32_t room_bytes, uint32_t gradients,
                                                uint32_t senders) {
  if (room_bytes == 0) return 0;
  const uint32_t packet_bytes = kUnsealedHeadBytesMax + gradients * kGradientBytes;
  return std::max(room_bytes / packet_bytes / std::max(senders, 1U), kRoomWindowMin);
}
static_assert(window_in_room(3U << 20, 352, 6) == 356);  // 3145728 / 1472 / 6
// Three quarters of Linux's default limit, net.core.rmem_max = 212992.
static_assert(window_in_room(159'744, 352, 4) == 27);
static_assert(window_in_room(159'744, 352, 256) == kRoomWindowMin);
static_assert(window_in_room(0, 352, 4) == 0);

}  // namespace tributary::wire

// SPDX-License-Identifier: Apache-2.0
/// @file
/// One attempt to give a burst of frames to a driver that checks them first (rte_eth_tx_prepare).
///
/// Threads: Pure.
/// Tests:   tests/io/dpdk/offer_test.cc
#pragma once

#include <cstdint>
#include <span>

namespace tributary::io {

/// The result of offer().
struct Offered {
  uint32_t sent = 0;  ///< Frames from the beginning that the driver has taken and owns.
  /// The driver refuses the next frame because of its contents. The caller still owns that frame
  /// and must remove it; otherwise it would block the frames behind it for ever.
  bool refuses_next = false;
};

/// Offers `frames` to a driver once.
/// @param prepare Takes frames; returns how many from the beginning the driver accepts.
/// @param send    Takes these; returns how many of them the driver had room for.
template <typename Frame, typename Prepare, typename Send>
Offered offer(std::span<Frame> frames, Prepare&& prepare, Send&& send) {
  const uint32_t ready = prepare(frames);
  const uint32_t sent = ready == 0 ? 0 : send(frames.first(ready));
  return {.sent = sent, .refuses_next = sent == ready && ready < frames.size()};
}

}  // namespace tributary::io

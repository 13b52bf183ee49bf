// SPDX-License-Identifier: Apache-2.0
/// @file
/// One attempt to give a burst of frames to a driver that looks at them first (rte_eth_tx_prepare):
/// which went out, and whether the next one never will.
///
/// Threads: Pure.
/// Tests:   tests/io/dpdk/offer_test.cc
#pragma once

#include <cstdint>
#include <span>

namespace tributary::io {

struct Offered {
  uint32_t sent = 0;  ///< From the beginning; they are the driver's now.
  /// The one behind them is refused for what it is. It is still the caller's, and would stand in
  /// the way of those behind it for ever.
  bool refuses_next = false;
};

/// @param prepare Takes frames, returns how many from the beginning the driver would take.
/// @param send    Takes those, returns how many of them there was room for.
template <typename Frame, typename Prepare, typename Send>
Offered offer(std::span<Frame> frames, Prepare&& prepare, Send&& send) {
  const uint32_t ready = prepare(frames);
  const uint32_t sent = ready == 0 ? 0 : send(frames.first(ready));
  return {.sent = sent, .refuses_next = sent == ready && ready < frames.size()};
}

}  // namespace tributary::io

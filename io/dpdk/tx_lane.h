// SPDX-License-Identifier: Apache-2.0
/// @file
/// Frames of one core that wait for a device's transmit queue, and the burst that sends them.
///
/// Threads: Owned by the core's thread. If cores share the transmit queue, a burst takes its lock.
/// Errors:  A frame is lost and counted if it finds no room in the device within kFullWait. If the
///          driver refuses a frame, that frame alone is lost and counted. Only frames that the
///          device has taken count as sent.
/// Memory:  Arrays of a fixed size.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc, tests/io/dpdk/dpdk_side_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "io/counter_cells.h"
#include "io/dpdk/dpdk_device.h"
#include "io/dpdk/offer.h"

struct rte_mbuf;
struct rte_mempool;

namespace tributary::io {

/// How long one flush() waits for a full device. A peer that resumes reading within this time
/// loses nothing. A peer that is gone causes one such wait, and no further wait until it reads.
inline constexpr Duration kFullWait = milliseconds(1);

/// Returns a copy of a whole frame in one buffer; null if none is left or it is too small.
[[nodiscard]] rte_mbuf* copy_frame(std::span<const std::byte> frame, rte_mempool* pool);

class TxLane {
 public:
  /// Payload size of a frame that counts in neither tx_packets nor tx_bytes.
  static constexpr uint32_t kNoPayload = UINT32_MAX;

  /// All references must outlive this object.
  /// @param core The core's number; it chooses the transmit queue.
  TxLane(DpdkDevice& device, uint32_t core, PortCounterCells& counters);

  /// Takes a frame, and sends the waiting ones first if there are too many.
  void append(rte_mbuf* frame, uint32_t payload_bytes);
  /// Sends all waiting frames.
  void flush();

 private:
  static constexpr uint32_t kBurst = 64;

  Offered offer_to_device(std::span<rte_mbuf*> frames);
  void count_sent(std::span<const uint32_t> payload_bytes);
  void drop(std::span<rte_mbuf*> frames);

  DpdkDevice& device_;
  PortCounterCells& counters_;
  const uint16_t queue_;
  std::array<rte_mbuf*, kBurst> frames_{};
  std::array<uint32_t, kBurst> payload_bytes_{};
  uint32_t count_ = 0;
  bool stuck_ = false;  ///< Took nothing for kFullWait, so flush() does not wait for it.
};

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A DPDK device as a side of an inline port: one core's receive queue and transmit queue.
///
/// Model:   Frames are handed out where the device put them, and copied once when they leave. The
///          device is polled. A frame with a checksum that a card should complete gets it here; a
///          train of segments is refused, like a frame that exceeds the device's MTU.
/// Threads: One, except visit_counters() and the destructor, which runs after the core has ended.
/// Errors:  A received frame is dropped and counted if it is shorter than an Ethernet header
///          (runt), exceeds the device's MTU (giant), or finds no buffer.
/// Memory:  Buffers from two pools: the device's for received frames, the wire's for sent ones.
/// Tests:   tests/io/dpdk/dpdk_side_test.cc, tests/system/inline_dpdk_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/counter_cells.h"
#include "io/dpdk/dpdk_device.h"
#include "io/dpdk/tx_lane.h"
#include "io/inline/inline_side.h"

namespace tributary::io {

/// The devices of an inline port, which the sides of all cores share.
struct DpdkWire {
  MbufPool sent;  ///< Outlives the devices, which hold its buffers.
  std::vector<std::unique_ptr<DpdkDevice>> devices;
};

class DpdkSide final : public InlineSide {
 public:
  /// @param device An index into wire->devices.
  DpdkSide(std::shared_ptr<DpdkWire> wire, uint32_t device, uint32_t core);
  ~DpdkSide() override;

  [[nodiscard]] uint32_t receive(uint32_t count_max) override;
  [[nodiscard]] std::span<std::byte> frame(uint32_t index) const override;
  [[nodiscard]] std::optional<FrameNotes> notes_of(std::span<const std::byte>) const override {
    return FrameNotes{};
  }
  [[nodiscard]] Sent send(std::span<const Outgoing> frames) override;
  [[nodiscard]] int fd() const override { return kPolled; }
  [[nodiscard]] std::optional<uint64_t> rx_dropped() const override;
  void visit_counters(const engine::PortQueue::CounterVisitor& visit) const override;

 private:
  rte_mbuf* accept(rte_mbuf* frame);
  /// Returns a copy of the frame that is complete; null if it cannot leave by this device.
  rte_mbuf* complete_copy(const Outgoing& frame);
  void free_held();

  const std::shared_ptr<DpdkWire> wire_;
  DpdkDevice& device_;
  const uint16_t queue_;
  const uint32_t frame_bytes_max_;
  PortCounterCells counters_;  ///< Counters of lane_.
  TxLane lane_;
  CounterCell giant_;
  CounterCell runt_;
  CounterCell no_buffer_;
  std::array<rte_mbuf*, kFramesEach> held_{};  ///< Frames of the last receive().
  uint32_t held_count_ = 0;
};

}  // namespace tributary::io

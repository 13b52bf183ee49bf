// SPDX-License-Identifier: Apache-2.0
/// @file
/// One core's view of a DPDK port: its sending half, and the receive queues that it polls.
///
/// Model:   Payloads are handed out where the device put them. The next receive() frees their
///          frames. receive() also handles questions for MAC addresses, their answers and pings;
///          the engine never sees them.
/// Units:   Payload bytes; packets are PacketLayer::kUdpPayload.
/// Threads: As engine::PortQueue: one thread, except for wake(), counters() and visit_counters().
/// Errors:  Counted; see io/frames/link_inspect.h.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/port.h"
#include "io/counter_cells.h"
#include "io/dpdk/dpdk_transmitter.h"
#include "io/frames/frame_link.h"

namespace tributary::io {

class alignas(128) DpdkQueue final : public engine::PortQueue {
 public:
  /// A receive queue of a device.
  struct Source {
    uint32_t device = 0;
    uint32_t queue = 0;
  };
  struct Config {
    DpdkTransmitter::Config transmitter;
    uint32_t frame_bytes_max = 0;  ///< Largest frame of any of the devices.
    bool poll = false;             ///< True to poll without ever sleeping.
    std::vector<Source> sources;   ///< May be empty; other cores then hand packets over.
  };

  DpdkQueue(const Config& config, const FrameLinkConfig& link, NeighbourTable& neighbours,
            std::span<const std::unique_ptr<DpdkDevice>> devices);
  ~DpdkQueue() override;

  uint32_t receive(std::span<engine::Packet> burst) override;
  void transmit(std::span<const engine::TxPacket> packets) override;
  void wait(Duration at_most) override;
  void wake() override { woken_.store(true, std::memory_order_release); }
  [[nodiscard]] engine::PortCounters counters() const override { return counters_.read(); }
  void visit_counters(const CounterVisitor& visit) const override;

  [[nodiscard]] FrameLink& link() { return link_; }
  /// Sends the multicast groups' leave messages. Call it after the queue's thread has ended.
  void leave_groups();

 private:
  /// A frame that wait() has received and receive() has not yet inspected.
  struct ReceivedFrame {
    rte_mbuf* frame = nullptr;
    uint32_t device = 0;
  };
  void free_held();
  uint32_t poll_devices(uint32_t room);
  rte_mbuf* in_one_piece(const ReceivedFrame& received);
  bool take(const ReceivedFrame& received, engine::Packet& packet);
  void send_own_frames();

  const Config config_;
  const std::span<const std::unique_ptr<DpdkDevice>> devices_;
  PortCounterCells counters_;
  FrameLink link_;
  DpdkTransmitter transmitter_;

  std::array<ReceivedFrame, engine::kBurstPackets> received_{};
  uint32_t received_count_ = 0;
  uint32_t source_next_ = 0;  ///< Polling continues here, so that no device starves another.
  std::array<rte_mbuf*, engine::kBurstPackets> held_{};  ///< Frames of the last burst's payloads.
  uint32_t held_count_ = 0;
  std::vector<std::byte> reply_;
  Instant now_;
  Instant busy_at_;  ///< When a frame was last received.
  std::atomic<bool> woken_{false};
};

}  // namespace tributary::io

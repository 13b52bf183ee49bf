// SPDX-License-Identifier: Apache-2.0
/// @file
/// One core's view of a packet socket: it receives (queue 0 only), sends, and lets its FrameLink
/// answer ARP and pings.
///
/// Model:   Received payloads lie in the queue's buffers until the next receive(). A sent frame is
///          a header of ours and the caller's payload, which the kernel copies together.
/// Units:   Payload bytes; packets are PacketLayer::kUdpPayload.
/// Threads: As engine::PortQueue: one thread, except for wake(), counters() and visit_counters().
/// Errors:  Counted; see io/frames/link_inspect.h. A frame that finds no room in the socket within
///          kFullWait is lost and counted.
/// Tests:   tests/io/packet/packet_port_test.cc
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/port.h"
#include "io/counter_cells.h"
#include "io/file_descriptor.h"
#include "io/frames/frame_link.h"

namespace tributary::io {

class alignas(128) PacketQueue final : public engine::PortQueue {
 public:
  struct Config {
    int socket = -1;  ///< Owned by the port.
    bool receives = false;
    uint32_t mtu = 0;
    uint32_t payload_bytes_max = 0;
  };
  static Result<std::unique_ptr<PacketQueue>> make(const Config& config,
                                                   const FrameLinkConfig& link,
                                                   NeighbourTable& neighbours);

  uint32_t receive(std::span<engine::Packet> burst) override;
  void transmit(std::span<const engine::TxPacket> packets) override;
  void wait(Duration at_most) override;
  void wake() override;
  [[nodiscard]] engine::PortCounters counters() const override { return counters_.read(); }
  void visit_counters(const CounterVisitor& visit) const override;

  [[nodiscard]] FrameLink& link() { return link_; }
  /// Sends the multicast groups' leave messages. Call it after the queue's thread has ended.
  void leave_groups();

 private:
  /// Frames handed to the kernel in one call.
  static constexpr uint32_t kSendBurst = 64;
  struct alignas(16) Header {
    std::array<std::byte, kUdpFrameHeaderBytesIpv6> bytes;
  };
  struct alignas(16) Control {
    std::array<std::byte, 64> bytes;
  };

  PacketQueue(const Config& config, const FrameLinkConfig& link, NeighbourTable& neighbours,
              FileDescriptor wake_event);
  bool take(uint32_t index, engine::Packet& packet);
  void add_frame(const engine::TxPacket& packet, uint16_t payload_sum);
  void flush();
  void send_frame(std::span<const std::byte> frame);
  void send_own_frames();

  const Config config_;
  const FileDescriptor wake_event_;
  PortCounterCells counters_;
  FrameLink link_;
  Instant now_;

  // Receiving. Shape [kBurstPackets], or empty if this queue does not receive.
  uint32_t stride_ = 0;
  std::vector<std::byte> storage_;  ///< Shape [kBurstPackets][stride_].
  std::vector<mmsghdr> rx_headers_;
  std::vector<iovec> rx_vectors_;
  std::vector<Control> rx_controls_;
  std::vector<std::byte> reply_;

  // Sending. `pending_` frames wait for flush().
  std::array<mmsghdr, kSendBurst> tx_headers_{};
  std::array<std::array<iovec, 2>, kSendBurst> tx_vectors_{};
  std::array<Header, kSendBurst> tx_bytes_{};
  uint32_t pending_ = 0;
};

}  // namespace tributary::io

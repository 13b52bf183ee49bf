// SPDX-License-Identifier: Apache-2.0
/// @file
/// A packet socket (AF_PACKET) that receives and sends all frames of one interface.
///
/// Model:   The interface is in promiscuous mode. The kernel's notes about a frame travel with it:
///          a checksum that a card should complete, a train of segments, a VLAN tag. So a frame
///          that is sent as it came is complete on the wire.
/// Threads: One, except the functions that return counters.
/// Errors:  open() returns one line: the cause, and the command to fix it. Frames longer than a
///          buffer are dropped and counted (rx_truncated).
/// Memory:  kFramesEach buffers of 64 KiB of address space; pages cost nothing until used.
/// Tests:   tests/io/inline/frame_socket_test.cc, tests/system/inline_test.cc
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/counter_cells.h"
#include "io/file_descriptor.h"
#include "io/inline/inline_side.h"
#include "io/inline/steering.h"

namespace tributary::io {

class FrameSocket;

/// The sockets of one interface that share its frames. A socket that is bound but has not joined
/// would get copies of the others' frames, so none receives anything until all have joined.
struct FanoutGroup {
  Steering steering = Steering::kByFlow;
  uint32_t socket_count = 1;        ///< Sockets that will join.
  std::optional<uint16_t> id = {};  ///< Set by the first socket; the kernel also gives out 0.
  /// The sockets that have joined. They must exist until the last one has joined.
  std::vector<const FrameSocket*> joined = {};
};

class FrameSocket final : public InlineSide {
 public:
  struct Config {
    std::string interface;
    uint32_t receive_buffer_bytes = 4U << 20;
  };
  /// @param group If not null, the kernel shares the interface's frames among all sockets opened
  ///              with this group, from the moment that the last one is open.
  [[nodiscard]] static Result<std::unique_ptr<FrameSocket>> open(const Config& config,
                                                                 FanoutGroup* group);

  [[nodiscard]] uint32_t receive(uint32_t count_max) override;
  [[nodiscard]] std::span<std::byte> frame(uint32_t index) const override {
    return frames_[received_[index]];
  }
  [[nodiscard]] std::optional<FrameNotes> notes_of(std::span<const std::byte> bytes) const override;
  [[nodiscard]] Sent send(std::span<const Outgoing> frames) override;

  /// Returns the frames that the kernel has dropped because this socket's buffer was full.
  [[nodiscard]] uint64_t dropped_by_kernel() const;
  /// Returns the received frames that stand for a train of packets, which a card has joined or will
  /// cut (GRO, TSO). A program sees each as one packet.
  [[nodiscard]] uint64_t trains() const { return trains_.value(); }
  [[nodiscard]] uint64_t rx_truncated() const override { return truncated_.value(); }
  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] std::optional<uint64_t> rx_dropped() const override { return dropped_by_kernel(); }
  void visit_counters(const engine::PortQueue::CounterVisitor& visit) const override {
    visit("kernel_dropped", dropped_by_kernel());
    visit("trains", trains());
  }
  [[nodiscard]] const std::string& interface() const { return interface_; }

 private:
  /// Room before a frame for a VLAN tag that the kernel has moved to its notes.
  static constexpr uint32_t kTagRoomBytes = 4;
  static constexpr uint32_t kRoomBytes = engine::kHeadroomBytes + kTagRoomBytes;
  static constexpr uint32_t kStride = 65'664;
  static_assert(kRoomBytes + kFrameBytesMax <= kStride);
  struct alignas(16) Control {
    std::array<std::byte, 64> bytes;
  };

  FrameSocket() = default;
  Result<void> open_socket(const Config& config);
  Result<void> bind_to(const Config& config);
  /// Lets the socket receive nothing until hear().
  Result<void> silence();
  [[nodiscard]] Result<void> hear() const;
  /// Joins the group. The last socket ends the silence of all.
  Result<void> join(FanoutGroup& group);
  Result<void> steer_by_destination(uint32_t socket_count);
  void make_buffers();
  void put_tag_back(uint32_t index, msghdr& header);

  std::string interface_;
  FileDescriptor socket_;
  mutable std::atomic<uint64_t> dropped_{0};
  CounterCell trains_;
  CounterCell truncated_;

  // Receiving. Shape [kFramesEach].
  std::unique_ptr<std::byte[]> storage_;
  std::vector<mmsghdr> headers_;
  std::vector<std::array<iovec, 2>> vectors_;
  std::vector<Control> controls_;
  std::vector<FrameNotes> notes_;
  std::vector<std::span<std::byte>> frames_;
  std::array<uint32_t, kFramesEach> received_{};  ///< Buffers of the last receive()'s frames.

  // Sending.
  std::vector<mmsghdr> send_headers_;
  std::vector<std::array<iovec, 2>> send_vectors_;
};

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A packet socket (AF_PACKET) that receives and sends all frames of one interface.
///
/// Model:   The interface is in promiscuous mode. The kernel's notes about a frame travel with it: a
///          checksum that a card should complete, a train of segments, a VLAN tag. So a frame that
///          is sent as it came is complete on the wire.
/// Threads: One, except dropped_by_kernel().
/// Errors:  open() returns one line: the cause, and the command to fix it.
/// Memory:  kFramesEach buffers of 64 KiB of address space; pages cost nothing until used.
/// Tests:   tests/system/inline_test.cc
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/counter_cells.h"
#include "io/file_descriptor.h"
#include "io/inline/steering.h"

namespace tributary::io {

/// The kernel's notes about a frame: which checksum a card should complete, and how it should cut a
/// train of segments. Source: Virtio 1.1 §5.1.6 (virtio_net_hdr; the kernel's header is not C++).
struct FrameNotes {
  uint8_t flags = 0;     ///< kNeedsChecksum and others.
  uint8_t gso_type = 0;  ///< 0: a single packet.
  uint16_t header_bytes = 0;
  uint16_t gso_bytes = 0;
  uint16_t checksum_start = 0;
  uint16_t checksum_offset = 0;

  static constexpr uint8_t kNeedsChecksum = 1;
};
static_assert(sizeof(FrameNotes) == 10);

/// The sockets of one interface that share its frames.
struct FanoutGroup {
  Steering steering = Steering::kByFlow;
  uint32_t socket_count = 1;
  uint16_t id = 0;  ///< Set by the first socket.
};

class FrameSocket {
 public:
  /// Frames received at once.
  static constexpr uint32_t kFramesEach = 64;

  /// A frame for send().
  struct Outgoing {
    std::span<const std::byte> bytes;
    FrameNotes notes;  ///< Zeros: complete as it is.
  };

  struct Config {
    std::string interface;
    uint32_t receive_buffer_bytes = 4U << 20;
  };
  /// @param group If not null, the kernel shares the interface's frames among all sockets opened
  ///              with this group.
  [[nodiscard]] static Result<std::unique_ptr<FrameSocket>> open(const Config& config,
                                                                 FanoutGroup* group);

  /// Receives at most `count_max` frames. They stay valid until the next receive().
  [[nodiscard]] uint32_t receive(uint32_t count_max);
  /// Returns a frame of the last receive().
  [[nodiscard]] std::span<std::byte> frame(uint32_t index) const { return frames_[index]; }
  /// Returns the frame of the last receive() that begins at `data`, or nothing.
  [[nodiscard]] const FrameNotes* notes_of(const std::byte* data) const;

  /// Sends the frames in order. Waits up to a millisecond for room in the socket.
  /// @return the number sent; the kernel has refused the others.
  [[nodiscard]] uint32_t send(std::span<const Outgoing> frames);

  /// Returns the frames that the kernel has dropped because this socket's buffer was full.
  [[nodiscard]] uint64_t dropped_by_kernel() const;
  /// Returns the received frames that stand for a train of packets, which a card has joined or will
  /// cut (GRO, TSO). A program sees each as one packet.
  [[nodiscard]] uint64_t trains() const { return trains_.value(); }
  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] const std::string& interface() const { return interface_; }

 private:
  /// Room before a frame for a VLAN tag that the kernel has moved to its notes.
  static constexpr uint32_t kTagRoomBytes = 4;
  /// Largest frame: a train of segments of 64 KiB, and its headers.
  static constexpr uint32_t kFrameBytesMax = 65'536 + 14 + 4;
  static constexpr uint32_t kStride = 65'600;
  static_assert(kTagRoomBytes + kFrameBytesMax <= kStride);
  struct alignas(16) Control {
    std::array<std::byte, 64> bytes;
  };

  FrameSocket() = default;
  Result<void> open_socket(const Config& config);
  Result<void> bind_to(const Config& config);
  Result<void> join(FanoutGroup& group);
  void make_buffers();
  void put_tag_back(uint32_t index, msghdr& header);

  std::string interface_;
  FileDescriptor socket_;
  mutable std::atomic<uint64_t> dropped_{0};
  CounterCell trains_;

  // Receiving. Shape [kFramesEach].
  std::unique_ptr<std::byte[]> storage_;
  std::vector<mmsghdr> headers_;
  std::vector<std::array<iovec, 2>> vectors_;
  std::vector<Control> controls_;
  std::vector<FrameNotes> notes_;
  std::vector<std::span<std::byte>> frames_;

  // Sending.
  std::vector<mmsghdr> send_headers_;
  std::vector<std::array<iovec, 2>> send_vectors_;
};

}  // namespace tributary::io

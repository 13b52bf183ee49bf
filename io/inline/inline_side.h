// SPDX-License-Identifier: Apache-2.0
/// @file
/// One side of an inline port: a place where frames arrive and leave. frame_socket.h has the frames
/// of an interface, vxlan_socket.h those of a tunnel, io/dpdk/dpdk_side.h those of a DPDK device.
///
/// Threads: One, except rx_truncated() and visit_counters().
/// Tests:   tests/io/inline/, tests/system/inline_test.cc, tests/system/vxlan_test.cc
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/port.h"

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
  [[nodiscard]] bool needs_checksum() const { return (flags & kNeedsChecksum) != 0; }
};
static_assert(sizeof(FrameNotes) == 10);

class InlineSide {
 public:
  /// Frames received at once.
  static constexpr uint32_t kFramesEach = 64;
  /// Largest frame: a train of segments of 64 KiB, and its headers.
  static constexpr uint32_t kFrameBytesMax = 65'536 + 14 + 4;

  /// A frame for send().
  struct Outgoing {
    std::span<const std::byte> bytes;
    FrameNotes notes;  ///< Zeros: complete as it is.
  };

  /// The frames that have left, and their bytes.
  struct Sent {
    uint32_t frames = 0;
    uint64_t bytes = 0;
  };

  virtual ~InlineSide() = default;

  /// Receives at most `count_max` frames. They stay valid until the next receive().
  [[nodiscard]] virtual uint32_t receive(uint32_t count_max) = 0;
  /// Returns a frame of the last receive(). A program may use kHeadroomBytes before it.
  [[nodiscard]] virtual std::span<std::byte> frame(uint32_t index) const = 0;
  /// Returns the notes for sending a frame of the last receive().
  /// @param bytes The frame as the program has left it, perhaps with another beginning.
  /// @return nothing if it cannot be sent; see moved_notes().
  [[nodiscard]] virtual std::optional<FrameNotes> notes_of(
      std::span<const std::byte> bytes) const = 0;
  /// Sends the frames in order. Waits up to a millisecond for room.
  /// @return those sent; the others are lost.
  [[nodiscard]] virtual Sent send(std::span<const Outgoing> frames) = 0;
  /// The fd() of a side that has none and must be polled.
  static constexpr int kPolled = -1;
  /// Returns the descriptor that becomes readable when a frame arrives; kPolled: there is none.
  [[nodiscard]] virtual int fd() const = 0;
  /// As engine::PortQueue::rx_dropped(): frames that were lost before receive().
  [[nodiscard]] virtual std::optional<uint64_t> rx_dropped() const = 0;
  /// As engine::PortCounters::rx_truncated. Any thread.
  [[nodiscard]] virtual uint64_t rx_truncated() const { return 0; }
  /// As engine::PortQueue::visit_counters(). Sides of a port may have counters of the same names.
  virtual void visit_counters(const engine::PortQueue::CounterVisitor& visit) const = 0;

 protected:
  InlineSide() = default;
};

/// Returns the notes on a frame that a program has given other headers.
/// @param notes Those on the frame as it came.
/// @param added_bytes Bytes before its former first byte; negative: bytes removed.
/// @param bytes The frame as it is.
/// @return nothing if the frame stands for a train of segments and has other headers than Ethernet,
///         VLAN tags and IP before them: no card could cut it.
[[nodiscard]] std::optional<FrameNotes> moved_notes(FrameNotes notes, int64_t added_bytes,
                                                    std::span<const std::byte> bytes);

/// A checksum that a card should complete.
struct OpenChecksum {
  size_t at = 0;  ///< Its place in the frame, in bytes.
  uint16_t value = 0;
};
/// Completes the checksum of a frame with notes.needs_checksum(). @return nothing if the notes name
/// a place outside the frame.
[[nodiscard]] std::optional<OpenChecksum> open_checksum(const InlineSide::Outgoing& frame);

/// Sends messages in order. Waits once, up to a millisecond, for room in the socket's buffer.
/// @param messages Each has one frame, behind one piece that is not the frame's.
/// @return the frames sent; the kernel has refused the others.
[[nodiscard]] InlineSide::Sent send_messages(int socket, std::span<mmsghdr> messages);

}  // namespace tributary::io

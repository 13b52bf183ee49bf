// SPDX-License-Identifier: Apache-2.0
/// @file
/// The receiving half of a UDP queue: recvmmsg into large buffers, where the kernel may have joined
/// a train of equal datagrams (UDP_GRO); the train is cut into packets where it lies.
///
/// Shapes:  kMessages buffers of 64 KiB. A message is what the kernel hands over at once: one
///          datagram or a train of segments of equal size, the last of which may be shorter.
/// Threads: Owned by the queue's thread.
/// Errors:  What the kernel reports from the network (a peer's ICMP) is passed over; truncated and
///          oversized datagrams are counted.
/// Memory:  All of it is taken in the constructor.
/// Tests:   tests/io/udp/udp_port_test.cc
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/endpoint.h"
#include "engine/packet.h"
#include "io/counter_cells.h"
#include "io/udp/socket_address.h"

namespace tributary::io {

class UdpReceiver {
 public:
  /// @param socket   Non-blocking; stays the caller's.
  /// @param counters Outlives this; written by the queue's thread only.
  UdpReceiver(int socket, uint32_t payload_bytes_max, PortCounterCells& counters);

  /// As PortQueue::receive(). What did not fit into `burst` comes first in the next call.
  [[nodiscard]] uint32_t receive(std::span<engine::Packet> burst);

  /// True when the next receive() returns packets without asking the kernel.
  [[nodiscard]] bool has_leftover() const { return message_index_ < message_count_; }

 private:
  static constexpr uint32_t kMessages = 32;
  static constexpr uint32_t kMessagesMin = 4;
  static constexpr uint32_t kBufferBytes = 64U << 10;
  /// Buffers lie a page and a cache line more than 64 KiB apart: at a power of two the beginnings
  /// of all datagrams would fall into the same few sets of the cache.
  static constexpr uint32_t kBufferStride = kBufferBytes + 4096 + 64;

  struct Message {
    uint32_t size = 0;
    uint32_t segment_size = 0;
    uint32_t segment_first = 0;  ///< Delivered are those from here …
    uint32_t segment_end = 0;    ///< … to before this; none if equal.
    Endpoint source;
  };
  struct Control {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> bytes;
  };

  void refill(uint32_t packet_count);
  uint32_t ask_kernel(uint32_t message_count);
  void open_message(uint32_t index);
  void skip_empty_messages();

  const int socket_;
  const uint32_t payload_bytes_max_;
  PortCounterCells& counters_;
  const std::unique_ptr<std::byte[]> storage_;  ///< Shape [kMessages][kBufferStride].

  // Written by every receive().
  uint32_t message_count_ = 0;
  uint32_t message_index_ = 0;  ///< The message to cut next.
  uint32_t segment_index_ = 0;  ///< The segment of it to hand out next.
  uint32_t segments_last_ = 1;  ///< Segments of a message at the last refill, rounded up.
  std::array<Message, kMessages> messages_;

  // Written by the kernel.
  std::array<mmsghdr, kMessages> headers_{};
  std::array<iovec, kMessages> vectors_{};
  std::array<SocketAddress, kMessages> sources_{};
  std::array<Control, kMessages> controls_{};
};

}  // namespace tributary::io

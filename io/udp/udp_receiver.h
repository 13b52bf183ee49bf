// SPDX-License-Identifier: Apache-2.0
/// @file
/// The receiving half of a UDP queue. recvmmsg fills large buffers, in which the kernel may have
/// joined a train of equal datagrams (UDP_GRO). The receiver cuts a train into packets in place.
///
/// Shapes:  kMessages buffers of 64 KiB. A message is one datagram, or a train of segments. All
///          segments have the same size, except that the last may be shorter.
/// Threads: Owned by the queue's thread.
/// Errors:  A refusal by the connected peer's machine (ICMP port unreachable) is counted, other
///          network errors are ignored. Truncated and oversized datagrams are counted.
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
#include "io/udp/local_addresses.h"
#include "io/udp/socket_address.h"

namespace tributary::io {

class UdpReceiver {
 public:
  /// @param socket   Non-blocking; the caller keeps ownership.
  /// @param local_addresses Must outlive this; null unless the socket tells where packets arrive.
  /// @param counters Must outlive this; written by the queue's thread only.
  UdpReceiver(int socket, uint32_t payload_bytes_max, LocalAddresses* local_addresses,
              PortCounterCells& counters);

  /// See PortQueue::receive(). Packets that did not fit into `burst` come first in the next call.
  [[nodiscard]] uint32_t receive(std::span<engine::Packet> burst);

  /// Returns true if the next receive() will return packets without asking the kernel.
  [[nodiscard]] bool has_leftover() const { return message_index_ < message_count_; }

 private:
  static constexpr uint32_t kMessages = 32;
  static constexpr uint32_t kMessagesMin = 4;
  static constexpr uint32_t kBufferBytes = 64U << 10;
  /// The distance between buffers: 64 KiB plus a page and a cache line. At a power of two, the
  /// beginnings of all datagrams would fall into the same few cache sets.
  static constexpr uint32_t kBufferStride = kBufferBytes + 4096 + 64;

  struct Message {
    uint32_t size = 0;
    uint32_t segment_size = 0;
    uint32_t segment_first = 0;  ///< First segment to deliver.
    uint32_t segment_end = 0;    ///< One past the last; equal to segment_first for none.
    Endpoint source;
  };
  /// The kernel's notes about a message: the size of its segments, and its local address, which an
  /// AF_INET6 socket gives twice for an IPv4 packet.
  struct Control {
    alignas(
        cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in_pktinfo)) +
                                           CMSG_SPACE(sizeof(in6_pktinfo))> bytes;
  };
  struct Notes {
    uint32_t segment_size = 0;  ///< 0 for a single datagram.
    Endpoint local;             ///< The default if not known.
  };

  void refill(uint32_t packet_count);
  uint32_t ask_kernel(uint32_t message_count);
  static Notes read_notes(msghdr& header);
  void open_message(uint32_t index);
  void skip_empty_messages();

  const int socket_;
  const uint32_t payload_bytes_max_;
  LocalAddresses* const local_addresses_;
  PortCounterCells& counters_;
  const std::unique_ptr<std::byte[]> storage_;  ///< Shape [kMessages][kBufferStride].

  // Written by every receive().
  uint32_t message_count_ = 0;
  uint32_t message_index_ = 0;  ///< The message to cut next.
  uint32_t segment_index_ = 0;  ///< The next segment of that message to hand out.
  uint32_t segments_last_ = 1;  ///< Mean segments per message at the last refill, rounded up.
  std::array<Message, kMessages> messages_;

  // Written by the kernel.
  std::array<mmsghdr, kMessages> headers_{};
  std::array<iovec, kMessages> vectors_{};
  std::array<SocketAddress, kMessages> sources_{};
  std::array<Control, kMessages> controls_{};
};

}  // namespace tributary::io

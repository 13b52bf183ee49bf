// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sending half of a UDP queue. It sorts packets by destination and joins runs of equal size
/// into trains, which the kernel or the network card splits (UDP_SEGMENT). One sendmmsg sends all
/// trains of a burst. No payload byte is copied. Endpoint::via chooses the source address.
///
/// Shapes:  A train has up to 64 packets and fewer than 65,000 bytes. All packets have the same
///          size, except that the last may be shorter. Packets to one destination keep their order.
/// Threads: Owned by the queue's thread.
/// Errors:  A packet that the kernel refuses is counted in tx_refused and lost. transmit() waits at
///          most kFullWaitMax in total for a full socket buffer.
/// Memory:  Part of the object; transmit() never allocates.
/// Tests:   tests/io/udp/udp_port_test.cc
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/endpoint.h"
#include "base/time.h"
#include "engine/packet.h"
#include "io/counter_cells.h"
#include "io/udp/local_addresses.h"
#include "io/udp/socket_address.h"
#include "io/udp/train_limits.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

/// The longest total time that one transmit() waits for room in the socket's buffer.
inline constexpr Duration kFullWaitMax = milliseconds(5);

class UdpSender {
 public:
  struct Config {
    int family = AF_INET;
    Endpoint peer{};  ///< If set, the socket is connected to it.
    SteeringField steering{};
    uint32_t payload_bytes_max = kUdpPayloadBytesMax;
    bool send_offload = true;
    /// The addresses that Endpoint::via names; must outlive the sender. Null: the socket has one.
    const LocalAddresses* local_addresses = nullptr;
  };

  /// @param socket   Non-blocking; the caller keeps ownership.
  /// @param counters Must outlive this; written by the queue's thread only.
  UdpSender(int socket, const Config& config, PortCounterCells& counters);

  /// See PortQueue::transmit().
  void transmit(std::span<const engine::TxPacket> packets);

 private:
  /// Packets that are sorted together.
  static constexpr uint32_t kGroupPackets = 1024;
  static constexpr uint16_t kNone = UINT16_MAX;

  struct Destination {
    uint16_t first = kNone;  ///< Positions in the group, chained by next_.
    uint16_t last = kNone;
    socklen_t name_size = 0;  ///< 0 for the connected peer.
    uint32_t segment_bytes_max = 0;
    Endpoint endpoint;
  };
  /// One entry of headers_: a train or a single packet.
  struct Train {
    uint32_t size = 0;
    uint32_t segment_size = 0;
    uint32_t steering = 0;  ///< The steering field of its first packet.
    bool closed = false;    ///< True if it takes no more packets.
    uint16_t destination = 0;
    uint16_t source_bytes = 0;  ///< Bytes of its Control that name the source address.
  };
  /// The kernel's notes about a message: its source address if chosen, then the segment size of a
  /// train.
  struct Control {
    alignas(cmsghdr)
        std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))> bytes;
  };

  // The steps of transmit(), in order.
  void sort_by_destination(std::span<const engine::TxPacket> packets);
  std::optional<uint32_t> find_destination(const Endpoint& endpoint);
  void build_trains(std::span<const engine::TxPacket> packets);
  void append(const engine::TxPacket& packet, uint32_t destination, bool first);
  [[nodiscard]] bool fits(const Train& train, uint64_t packet_count, const engine::TxPacket& packet,
                          uint32_t steering) const;
  [[nodiscard]] uint32_t steering_of(const engine::TxPacket& packet) const;
  void write_notes();
  size_t write_source(Control& control, const Endpoint& from) const;
  void send_trains();
  bool handle_error(int error, uint32_t index, uint32_t& attempts);
  void send_one_by_one(uint32_t index, int train_error);
  int send_single(const iovec& packet, uint32_t index);
  bool wait_for_room();
  void count_sent(uint32_t index);
  void refuse_from(uint32_t index);

  const int socket_;
  const Config config_;
  PortCounterCells& counters_;
  TrainLimits limits_;

  // Written by every transmit().
  std::optional<Instant> full_until_;  ///< End of the wait for room; set by the first full buffer.
  Instant group_at_;                   ///< Time of this group; only set if limits_ has entries.
  uint32_t destination_count_ = 0;
  uint32_t destination_last_ = 0;
  uint32_t train_count_ = 0;
  uint32_t vector_count_ = 0;
  std::array<uint16_t, kGroupPackets> next_{};
  std::array<Destination, kGroupPackets> destinations_;
  std::array<Train, kGroupPackets> trains_;

  // Read by the kernel.
  std::array<mmsghdr, kGroupPackets> headers_{};
  std::array<iovec, kGroupPackets> vectors_{};
  std::array<SocketAddress, kGroupPackets> names_{};
  std::array<Control, kGroupPackets> controls_{};
};

}  // namespace tributary::io

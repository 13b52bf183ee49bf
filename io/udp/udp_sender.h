// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sending half of a UDP queue: packets are put in order of destination, runs of equal size
/// become one train that the kernel or the network card cuts up (UDP_SEGMENT), and all trains of a
/// burst leave with one sendmmsg. No payload byte is copied here.
///
/// Shapes:  A train has up to 64 packets and under 65,000 bytes; all have the size of the first but
///          the last, which may be shorter. Packets to one destination keep their order.
/// Threads: Owned by the queue's thread.
/// Errors:  A packet that the kernel refuses is counted in tx_refused and lost. A full socket
///          buffer is waited for, at most kFullWaitMax for one transmit().
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
#include "io/udp/socket_address.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

/// Longest total wait of one transmit() for room in the socket's buffer.
inline constexpr Duration kFullWaitMax = milliseconds(5);

class UdpSender {
 public:
  struct Config {
    int family = AF_INET;
    Endpoint peer{};  ///< Set: the socket is connected to it.
    SteeringField steering{};
    uint32_t payload_bytes_max = kUdpPayloadBytesMax;
    bool send_offload = true;
  };

  /// @param socket   Non-blocking; stays the caller's.
  /// @param counters Outlives this; written by the queue's thread only.
  UdpSender(int socket, const Config& config, PortCounterCells& counters);

  /// As PortQueue::transmit().
  void transmit(std::span<const engine::TxPacket> packets);

 private:
  /// Packets that are put in order together.
  static constexpr uint32_t kGroupPackets = 1024;
  static constexpr uint16_t kNone = UINT16_MAX;

  struct Destination {
    uint16_t first = kNone;  ///< Positions in the group, chained by next_.
    uint16_t last = kNone;
    socklen_t name_size = 0;  ///< 0: the connected peer.
    Endpoint endpoint;
  };
  /// One entry of headers_: a train or a single packet.
  struct Train {
    uint32_t size = 0;
    uint32_t segment_size = 0;
    uint32_t steering = 0;  ///< Its first packet's field.
    bool closed = false;    ///< Takes no more packets.
  };
  struct Control {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(uint16_t))> bytes;
  };

  // In the order in which transmit() runs them.
  void sort_by_destination(std::span<const engine::TxPacket> packets);
  std::optional<uint32_t> find_destination(const Endpoint& endpoint);
  void build_trains(std::span<const engine::TxPacket> packets);
  void append(const engine::TxPacket& packet, uint32_t destination, bool first);
  [[nodiscard]] bool fits(const Train& train, uint64_t packet_count, const engine::TxPacket& packet,
                          uint32_t steering) const;
  [[nodiscard]] uint32_t steering_of(const engine::TxPacket& packet) const;
  void write_notes();
  void send_trains();
  bool handle_error(int error, uint32_t index, uint32_t& attempts);
  void send_one_by_one(uint32_t index, int train_error);
  int send_single(const iovec& packet, const msghdr& train);
  bool wait_for_room();
  void count_sent(uint32_t index);
  void refuse_from(uint32_t index);

  const int socket_;
  const Config config_;
  PortCounterCells& counters_;
  /// Larger packets travel singly; lowered when the kernel refuses a train, 0 for no trains.
  uint32_t segment_bytes_max_;

  // Written by every transmit().
  std::optional<Instant>
      full_until_;  ///< When waiting for room ends; set by the first full buffer.
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

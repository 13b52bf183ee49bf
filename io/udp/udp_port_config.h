// SPDX-License-Identifier: Apache-2.0
/// @file
/// The configuration of a kernel UDP port.
///
/// Units:  Sizes in bytes.
/// Errors: UdpPort::open() checks every field once and names the allowed values.
/// Tests:  tests/io/udp/udp_port_open_test.cc
#pragma once

#include <cstdint>
#include <optional>

#include "base/endpoint.h"

namespace tributary::io {

/// Largest number of sockets of one port.
inline constexpr uint32_t kUdpQueuesMax = 64;

/// Largest UDP payload over IPv4: 65,535 - 20 (IPv4) - 8 (UDP).
inline constexpr uint32_t kUdpPayloadBytesMax = 65'507;
/// Largest train of packets that the kernel takes in one call (GSO): below kUdpPayloadBytesMax,
/// with room for IPv6 and options.
inline constexpr uint32_t kUdpTrainBytesMax = 65'000;

/// Selects the queue of a packet:
///   (big-endian 32 bits at `payload_offset_bytes` >> `shift_bits`) & (queue_count - 1).
/// A packet too short for the field goes to queue 0.
///
/// The default field is the block in bytes 1-4 of the Trio-ML header (Trio paper, Figure 8). The
/// default shift gives each queue stretches of 128 blocks. Most trains are then as long as the
/// kernel allows, and few are cut by the end of a stretch. With packets of 1472 bytes, a stretch
/// makes trains of 44, 44 and 40 packets. A stretch of 64 blocks would make trains of 44 and 20.
///
/// The kernel steers whole trains. With UDP_GRO it may join packets from the stretches of two
/// queues, and then all of them go to the queue of the first. Steering is therefore only for speed:
/// a program must stay correct if a packet arrives at another queue.
struct SteeringField {
  uint32_t payload_offset_bytes = 1;
  uint32_t shift_bits = 7;  ///< 0 to 31.
};

struct UdpMulticast {
  Endpoint group{};  ///< Joined if set; its port is ignored. Leave it unset to send only.
  /// The interface: its IPv4 address, or for IPv6 its index as scope_id. Unset: the interface of
  /// UdpPortConfig::local if that is set, otherwise the kernel's choice.
  Endpoint via{};
  uint8_t ttl = 1;   ///< Number of routers that a sent packet may pass, plus one.
  bool loop = true;  ///< Sent packets also reach members on this machine.
  /// Lets several members on this machine bind the same port. A unicast packet to the port then
  /// reaches only one of them.
  bool share = false;
};

struct UdpPortConfig {
  /// The address to listen on; port 0 lets the kernel choose. The default [::] takes IPv4 and IPv6.
  Endpoint local{};

  /// Number of sockets on that port: a power of two up to kUdpQueuesMax.
  uint32_t queue_count = 1;

  /// If set, only packets from this sender are received. Needs queue_count 1.
  Endpoint peer{};

  SteeringField steering{};

  /// Requested socket buffers. If the kernel grants less, UdpPort::warnings() has a line about it.
  uint32_t receive_buffer_bytes = 4U << 20;
  uint32_t send_buffer_bytes = 4U << 20;

  /// Larger payloads are dropped when received and refused when sent. 1 to kUdpPayloadBytesMax.
  uint32_t payload_bytes_max = kUdpPayloadBytesMax;

  /// Let the kernel join received datagrams (UDP_GRO) and split sent ones (UDP_SEGMENT) if it can.
  /// Switch them off for comparison, or to rule out a driver fault.
  bool receive_offload = true;
  bool send_offload = true;

  /// Joining needs queue_count 1: the kernel copies a group's packet to every socket of the port.
  std::optional<UdpMulticast> multicast{};
};

}  // namespace tributary::io

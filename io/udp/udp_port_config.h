// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a kernel UDP port is opened with.
///
/// Units:  Sizes in bytes.
/// Errors: UdpPort::open() checks every field once and names what is allowed.
/// Tests:  tests/io/udp/udp_port_open_test.cc
#pragma once

#include <cstdint>
#include <optional>

#include "base/endpoint.h"

namespace tributary::io {

/// Most sockets of one port.
inline constexpr uint32_t kUdpQueuesMax = 64;

/// Largest UDP payload over IPv4: 65,535 - 20 (IPv4) - 8 (UDP).
inline constexpr uint32_t kUdpPayloadBytesMax = 65'507;

/// Which queue a packet goes to:
///   (big-endian 32 bits at `payload_offset_bytes` >> `shift_bits`) & (queue_count - 1).
/// A packet too short for the field goes to queue 0. The defaults are bytes 1-4 of the Trio-ML
/// header, the block (Trio paper, Figure 8), in stretches of 128 blocks, so that trains of blocks
/// are cut by the kernel's limits and seldom by the stretch: 44 packets of 1472 bytes, twice and 40
/// more, where stretches of 64 made 44 and 20.
struct SteeringField {
  uint32_t payload_offset_bytes = 1;
  uint32_t shift_bits = 7;  ///< 0 to 31.
};

struct UdpMulticast {
  Endpoint group{};    ///< Joined when set (its port plays no part); unset for one that only sends.
  Endpoint via{};      ///< The interface: its IPv4 address, or its index as scope_id for IPv6.
                       ///< Unset: that of UdpPortConfig::local, or else the kernel's choice.
  uint8_t ttl = 1;     ///< Routers that what is sent may pass, plus one.
  bool loop = true;    ///< What is sent also reaches members on this machine.
  bool share = false;  ///< Several members on this machine may bind the same port. Unicast to it
                       ///< then reaches only one of them.
};

struct UdpPortConfig {
  /// Where to listen; port 0 lets the kernel choose. The default [::] takes IPv4 and IPv6.
  Endpoint local{};

  /// Sockets on that port, a power of two up to kUdpQueuesMax.
  uint32_t queue_count = 1;

  /// When set, only packets of this sender are received. Needs queue_count 1.
  Endpoint peer{};

  SteeringField steering{};

  /// Wanted socket buffers; a kernel that grants less makes a line in UdpPort::warnings().
  uint32_t receive_buffer_bytes = 4U << 20;
  uint32_t send_buffer_bytes = 4U << 20;

  /// Larger payloads are refused in both directions. 1 to kUdpPayloadBytesMax.
  uint32_t payload_bytes_max = kUdpPayloadBytesMax;

  /// Let the kernel join received datagrams (UDP_GRO) and split sent ones (UDP_SEGMENT) where it
  /// can; switched off to compare or to rule out a driver's fault.
  bool receive_offload = true;
  bool send_offload = true;

  /// Joining needs queue_count 1: the kernel copies a group's packet to every socket of the port.
  std::optional<UdpMulticast> multicast{};
};

}  // namespace tributary::io

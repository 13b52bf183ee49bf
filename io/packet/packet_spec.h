// SPDX-License-Identifier: Apache-2.0
/// @file
/// The argument of `--port` for a packet socket: a network interface, and the port's own address on
/// that interface's network.
///
/// Shapes:  "packet:INTERFACE[,key=value]..." with the keys ip (required), gw and mtu.
/// Units:   Bytes.
/// Threads: Pure functions.
/// Errors:  One line with the text, the fault and the allowed values.
/// Tests:   tests/io/packet/packet_spec_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/frames/port_keys.h"

namespace tributary::io {

/// The prefix of a `--port` text for a packet socket.
inline constexpr std::string_view kPacketPrefix = "packet:";

/// Limits on a port's MTU. Smallest: RFC 791's least datagram. Largest: the length field of IPv4.
inline constexpr uint32_t kPacketMtuMin = 576;
inline constexpr uint32_t kPacketMtuMax = 65'535;

/// `address` is always set. The kernel may have another address on the interface, but not this one.
struct PacketPortSpec : PortAddress {
  std::string text;  ///< As written, for messages.
  std::string interface;
  uint32_t mtu = 0;  ///< 0 for the interface's own MTU.
};

/// Parses the argument of `--port`. @param text Starts with "packet:".
[[nodiscard]] Result<PacketPortSpec> parse_packet_port(std::string_view text);

}  // namespace tributary::io

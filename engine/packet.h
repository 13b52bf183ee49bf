// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets as they cross a port. A received packet lies where the port put it. A sent packet is a
/// reference, so one payload serves any number of destinations without a copy.
///
/// Units:   Sizes and offsets in bytes.
/// Threads: A Packet belongs to the queue that received it, and to that queue's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endpoint.h"
#include "microcode/frame_pool.h"

namespace tributary::engine {

using microcode::kHeadBytes;
using microcode::kHeadroomBytes;

/// The first header in a packet's bytes.
enum class PacketLayer : uint8_t {
  kFrame,       ///< Ethernet header, as on a wire (DPDK, in-memory).
  kUdpPayload,  ///< None: the kernel has removed the headers (UDP sockets).
};

/// A received packet. `data` stays valid until the queue's next receive().
struct Packet {
  std::byte* data = nullptr;
  uint32_t size = 0;
  PacketLayer layer = PacketLayer::kFrame;
  Endpoint source;  ///< Set by the port for kUdpPayload, by the program for kFrame.
  /// Bytes before `data` that a program may use: kHeadroomBytes or more from ports of packet
  /// programs.
  uint16_t headroom_bytes = 0;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data, size}; }
  [[nodiscard]] bool is_frame() const { return layer == PacketLayer::kFrame; }
};

/// A packet to be sent. `data` must stay unchanged until transmit() returns.
struct TxPacket {
  const std::byte* data = nullptr;
  uint32_t size = 0;
  Endpoint destination;  ///< For a UDP payload; a frame carries its own.
  /// kUdpPayload: the port adds the headers. kFrame: sent as it is, by frame ports only; other
  /// ports refuse and count it.
  PacketLayer layer = PacketLayer::kUdpPayload;
};

}  // namespace tributary::engine

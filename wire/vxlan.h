// SPDX-License-Identifier: Apache-2.0
/// @file
/// The VXLAN header: Ethernet frames in UDP datagrams.
///
/// Source: RFC 7348 §5.
/// Tests:  tests/wire/vxlan_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/headers.h"

namespace tributary::wire {

struct VxlanHeader {
  static constexpr uint32_t kBytes = 8;
  using HasNetwork = Field<kBytes, 4, 1>;  ///< The I flag: the network number is valid.
  using Network = Field<kBytes, 32, 24>;   ///< VXLAN network identifier (VNI).
};
inline constexpr uint16_t kVxlanPort = 4789;  ///< Assigned by IANA.
inline constexpr uint32_t kVxlanNetworkMax = (1U << 24) - 1;

/// Returns the header of a network. @pre network <= kVxlanNetworkMax.
[[nodiscard]] inline std::array<std::byte, VxlanHeader::kBytes> vxlan_header(uint32_t network) {
  std::array<std::byte, VxlanHeader::kBytes> bytes{};
  MutableView<VxlanHeader> header(bytes.data());
  header.set<VxlanHeader::HasNetwork>(1);
  header.set<VxlanHeader::Network>(network);
  return bytes;
}

/// Returns the network of a datagram; nothing if it is too short for a frame, or has no valid
/// network. Reserved bits are ignored, as the RFC asks.
[[nodiscard]] inline std::optional<uint32_t> vxlan_network(std::span<const std::byte> datagram) {
  if (datagram.size() < VxlanHeader::kBytes + EthernetHeader::kBytes) return std::nullopt;
  const View<VxlanHeader> header(datagram.data());
  if (header.get<VxlanHeader::HasNetwork>() == 0) return std::nullopt;
  return header.get<VxlanHeader::Network>();
}

/// Returns the frame in a datagram of this network, at least an Ethernet header; nothing for any
/// other datagram.
[[nodiscard]] inline std::optional<std::span<const std::byte>> vxlan_frame(
    std::span<const std::byte> datagram, uint32_t network) {
  if (vxlan_network(datagram) != network) return std::nullopt;
  return datagram.subspan(VxlanHeader::kBytes);
}

}  // namespace tributary::wire

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes Ethernet frames of the packets of captures that have another link layer.
///
/// Model:   Linux's "cooked" captures (tcpdump -i any; LINUX_SLL, LINUX_SLL2) keep the sender's
///          address and the EtherType, captures of plain IP (tun, WireGuard; RAW) neither. The
///          frame's destination is zero, like every address that the capture lacks.
/// Units:   Sizes in bytes.
/// Threads: One.
/// Errors:  A packet that ends within its link layer's header is a frame without captured bytes.
/// Memory:  One frame.
/// Tests:   tests/io/capture/link_layer_test.cc, tests/fuzz/capture_file.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tributary::io {

/// The link types that can be read, for error texts.
[[nodiscard]] const std::string& readable_link_types();

class LinkLayer {
 public:
  struct Frame {
    std::span<const std::byte> bytes;  ///< Valid until the next call, or as long as the packet.
    uint32_t wire_bytes = 0;
  };

  /// @param link_type One of libpcap's DLT_ values. @return nothing if frames cannot be made of it.
  [[nodiscard]] static std::optional<LinkLayer> of(int link_type);

  /// Returns the frame of a packet. @pre packet.size() <= wire_bytes
  [[nodiscard]] Frame to_ethernet(std::span<const std::byte> packet, uint32_t wire_bytes);

 private:
  enum class Kind : uint8_t { kEthernet, kCooked, kCooked2, kIp };
  explicit LinkLayer(Kind kind) : kind_(kind) {}
  void write_addresses(std::span<const std::byte> source);
  void write_ether_type(uint16_t type);

  Kind kind_;
  std::vector<std::byte> frame_;
};

}  // namespace tributary::io

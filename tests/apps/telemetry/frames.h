// SPDX-License-Identifier: Apache-2.0
/// @file
/// Frames for the tests of flow telemetry, with any headers, sound or not.
///
/// Tests: tests/apps/flow_key_test.cc
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/byte_order.h"
#include "base/endpoint.h"
#include "tests/support/hex.h"
#include "wire/headers.h"

namespace tributary::telemetry {

/// Appends numbers, most significant byte first.
class FrameWriter {
 public:
  template <std::unsigned_integral T>
  FrameWriter& put(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    store_be<T>(bytes_.data() + bytes_.size() - sizeof(T), value);
    return *this;
  }
  FrameWriter& put8(uint32_t value) { return put(static_cast<uint8_t>(value)); }
  FrameWriter& put16(uint32_t value) { return put(static_cast<uint16_t>(value)); }
  FrameWriter& put32(uint32_t value) { return put(value); }
  FrameWriter& zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  FrameWriter& append(const Bytes& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// A flow and one packet of it.
struct FrameSpec {
  bool is_ipv6 = false;
  uint32_t source = 1;  ///< Last four bytes of the address.
  uint32_t destination = 2;
  uint32_t protocol = wire::kIpProtocolUdp;
  uint32_t source_port = 1000;
  uint32_t destination_port = 53;
  uint32_t vlan = 0;  ///< 0: no tag.
  uint32_t customer_vlan = 0;
  uint32_t tcp_flags = wire::kTcpAck;
  uint32_t payload_bytes = 10;
  uint32_t fragment_offset = 0;  ///< In units of eight bytes.
  bool more_fragments = false;
  uint32_t option_words = 0;     ///< IPv4.
  Bytes extensions{};            ///< IPv6, all extension headers.
  uint32_t first_extension = 0;  ///< Number of the first one, if there are any.
};

/// Returns the transport header and the payload.
inline Bytes transport_of(const FrameSpec& spec) {
  FrameWriter out;
  if (spec.fragment_offset == 0) {
    switch (spec.protocol) {
      case wire::kIpProtocolTcp:
        out.put16(spec.source_port).put16(spec.destination_port).zeros(8);
        out.put16(0x5000 | spec.tcp_flags).zeros(6);
        break;
      case wire::kIpProtocolIcmp:
      case wire::kIpProtocolIcmpv6:
        out.put16(spec.destination_port).zeros(6);
        break;
      default:
        out.put16(spec.source_port).put16(spec.destination_port);
        out.put16(8 + spec.payload_bytes).put16(0);
    }
  }
  return out.zeros(spec.payload_bytes).bytes();
}

/// Returns the IP packet.
inline Bytes ip_packet(const FrameSpec& spec) {
  const Bytes transport = transport_of(spec);
  FrameWriter out;
  if (spec.is_ipv6) {
    const bool extended = !spec.extensions.empty();
    out.put32(0x60000000).put16(static_cast<uint32_t>(spec.extensions.size() + transport.size()));
    out.put8(extended ? spec.first_extension : spec.protocol).put8(64);
    out.put32(0x20010db8).zeros(8).put32(spec.source);
    out.put32(0x20010db8).zeros(8).put32(spec.destination);
    return out.append(spec.extensions).append(transport).bytes();
  }
  const uint32_t header_words = 5 + spec.option_words;
  out.put8(0x40 | header_words).put8(0);
  out.put16(header_words * 4 + static_cast<uint32_t>(transport.size())).put16(7);
  out.put16((spec.more_fragments ? 0x2000U : 0U) | spec.fragment_offset);
  out.put8(64).put8(spec.protocol).put16(0).put32(spec.source).put32(spec.destination);
  return out.zeros(spec.option_words * 4).append(transport).bytes();
}

/// Returns the Ethernet frame, padded to 60 bytes.
inline Bytes frame_of(const FrameSpec& spec) {
  FrameWriter out;
  out.zeros(12);
  if (spec.vlan != 0) {
    const bool two = spec.customer_vlan != 0;
    out.put16(two ? wire::kEtherTypeServiceVlan : wire::kEtherTypeVlan).put16(0xe000 | spec.vlan);
    if (two) out.put16(wire::kEtherTypeVlan).put16(spec.customer_vlan);
  }
  out.put16(spec.is_ipv6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4).append(ip_packet(spec));
  if (out.bytes().size() < 60) out.zeros(60 - out.bytes().size());
  return out.bytes();
}

}  // namespace tributary::telemetry

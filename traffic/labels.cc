// SPDX-License-Identifier: Apache-2.0
#include "traffic/labels.h"

#include <algorithm>

#include "base/assert.h"
#include "base/byte_order.h"
#include "base/endpoint.h"

namespace tributary::traffic {
namespace {

using Address = std::array<uint8_t, 16>;

constexpr uint32_t kInnocentNetwork = 0x0a000000;    // 10.0.0.0/9
constexpr uint32_t kFlashCrowdNetwork = 0x0a800000;  // 10.128.0.0/9
constexpr uint32_t kFloodNetwork = 0xf0000000;       // 240.0.0.0/8
constexpr uint32_t kServerNetwork = 0xc6120000;      // 198.18.0.0/16
constexpr uint16_t kInnocentNetworkIpv6 = 1;         // 2001:db8:1::/48
constexpr uint16_t kServerNetworkIpv6 = 2;           // 2001:db8:2::/48

constexpr Address mapped(uint32_t ipv4) {
  return {0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0xff,
          0xff,
          static_cast<uint8_t>(ipv4 >> 24),
          static_cast<uint8_t>(ipv4 >> 16),
          static_cast<uint8_t>(ipv4 >> 8),
          static_cast<uint8_t>(ipv4)};
}

/// Returns 2001:db8:NETWORK::INDEX.
constexpr Address documentation(uint16_t network, uint32_t index) {
  Address address = mapped(index);
  address[0] = 0x20;
  address[1] = 0x01;
  address[2] = 0x0d;
  address[3] = 0xb8;
  address[4] = static_cast<uint8_t>(network >> 8);
  address[5] = static_cast<uint8_t>(network);
  address[10] = 0;
  address[11] = 0;
  return address;
}

/// A prefix of an address: its first bits, network order.
struct Prefix {
  Address address;
  uint32_t bits;  ///< Prefix length, out of 128 bits.
};
constexpr std::array<Prefix, 2> kServerPrefixes{{{mapped(kServerNetwork), kMappedPrefixBits + 16},
                                                 {documentation(kServerNetworkIpv6, 0), 112}}};

constexpr std::array<LabelledPrefix, 4> kPrefixes{{
    {Label::kInnocent, "10.0.0.0/9", mapped(kInnocentNetwork), kMappedPrefixBits + 9},
    {Label::kInnocent, "2001:db8:1::/48", documentation(kInnocentNetworkIpv6, 0), 48},
    {Label::kFlashCrowd, "10.128.0.0/9", mapped(kFlashCrowdNetwork), kMappedPrefixBits + 9},
    {Label::kFlood, "240.0.0.0/8", mapped(kFloodNetwork), kMappedPrefixBits + 8},
}};

/// Scatters the indices below `count`, a power of two: an odd factor permutes them.
constexpr uint32_t scatter(uint32_t index, uint32_t count) {
  TRIB_ASSERT(index < count);
  return index * 0x9e3779b1U & (count - 1);
}

Endpoint endpoint_of(const Address& address, uint16_t port = 0) {
  Endpoint endpoint;
  endpoint.address = address;
  endpoint.port = port;
  return endpoint;
}

bool contains(const Address& prefix, uint32_t prefix_bits, const Address& address) {
  uint32_t bit = 0;
  for (; bit + 8 <= prefix_bits; bit += 8) {
    if (address[bit / 8] != prefix[bit / 8]) return false;
  }
  if (bit == prefix_bits) return true;
  const uint32_t shift = 8 - (prefix_bits - bit);
  return ((address[bit / 8] ^ prefix[bit / 8]) >> shift) == 0;
}

}  // namespace

const char* to_string(Label label) {
  switch (label) {
    case Label::kInnocent:
      return "innocent";
    case Label::kFlood:
      return "flood";
    case Label::kFlashCrowd:
      return "flash_crowd";
  }
  return "unknown";
}

std::span<const LabelledPrefix> labelled_prefixes() { return kPrefixes; }

std::optional<Label> label_of(const Endpoint& source) {
  for (const LabelledPrefix& prefix : kPrefixes) {
    if (contains(prefix.address, prefix.bits, source.address)) return prefix.label;
  }
  return std::nullopt;
}

bool is_server(const Endpoint& destination) {
  return std::ranges::any_of(kServerPrefixes, [&destination](const Prefix& prefix) {
    return contains(prefix.address, prefix.bits, destination.address);
  });
}

Endpoint innocent_source(uint32_t index, bool ipv6) {
  const uint32_t host = scatter(index, kInnocentSourcesMax);
  return endpoint_of(ipv6 ? documentation(kInnocentNetworkIpv6, host)
                          : mapped(kInnocentNetwork | host));
}

Endpoint flash_crowd_source(uint32_t index) {
  return endpoint_of(mapped(kFlashCrowdNetwork | scatter(index, kFlashCrowdSourcesMax)));
}

Endpoint flood_source(uint32_t index) {
  return endpoint_of(mapped(kFloodNetwork | scatter(index, kFloodSourcesMax)));
}

Endpoint server_address(uint32_t index, bool ipv6, uint16_t port) {
  TRIB_ASSERT(index < kServersMax);
  return endpoint_of(
      ipv6 ? documentation(kServerNetworkIpv6, index + 1) : mapped(kServerNetwork | (index + 1)),
      port);
}

}  // namespace tributary::traffic

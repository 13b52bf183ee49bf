// SPDX-License-Identifier: Apache-2.0
/// @file
/// The truth about generated packets: the class of each, and the source prefixes that carry it.
/// A program that sees only frames recovers the class from the source address.
///
/// Model:   Each class has source prefixes of its own: 10.0.0.0/8, 240.0.0.0/8 (RFC 1112) and
///          2001:db8::/32 (RFC 3849). Real hosts have addresses of 10.0.0.0/8, too (RFC 1918), so
///          a packet is a generated one only if it goes to a server. Servers are in 198.18.0.0/16,
///          meant for benchmarks (RFC 2544), and in 2001:db8::/32.
/// Threads: Pure functions.
/// Errors:  label_of() returns nothing for an address that no class has.
/// Tests:   tests/traffic/labels_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/endpoint.h"

namespace tributary::traffic {

/// The class of a packet.
enum class Label : uint8_t {
  kInnocent,    ///< Background traffic.
  kFlood,       ///< Attack.
  kFlashCrowd,  ///< Many real clients of one server.
};
inline constexpr uint32_t kLabelCount = 3;

/// Returns "innocent", "flood" or "flash_crowd".
[[nodiscard]] const char* to_string(Label label);

/// The sources of one class in one address family.
struct LabelledPrefix {
  Label label;
  const char* text;                 ///< "10.0.0.0/9".
  std::array<uint8_t, 16> address;  ///< As in Endpoint: network order, IPv4 mapped.
  uint32_t bits;                    ///< Prefix length, out of 128 bits.
};

/// Returns all source prefixes. No two overlap.
[[nodiscard]] std::span<const LabelledPrefix> labelled_prefixes();

/// Returns the class of packets from `source`; nothing for an address that is in no prefix.
[[nodiscard]] std::optional<Label> label_of(const Endpoint& source);

/// Tells whether an address is in a prefix of the servers.
[[nodiscard]] bool is_server(const Endpoint& destination);

/// Prefixes of the servers, to which all traffic goes.
inline constexpr const char* kServerPrefixIpv4 = "198.18.0.0/16";
inline constexpr const char* kServerPrefixIpv6 = "2001:db8:2::/112";

/// Addresses that a prefix of each class offers over IPv4.
inline constexpr uint32_t kInnocentSourcesMax = uint32_t{1} << 23;
inline constexpr uint32_t kFlashCrowdSourcesMax = uint32_t{1} << 23;
inline constexpr uint32_t kFloodSourcesMax = uint32_t{1} << 24;
/// Servers that the prefixes have room for. Address 0 of the prefix is left out.
inline constexpr uint32_t kServersMax = 65'534;

/// Return the address of client or server `index`, without a port. Neighbouring indices lie in
/// different /24 networks, so that clients spread over the prefix.
/// @pre index is below the class's limit.
[[nodiscard]] Endpoint innocent_source(uint32_t index, bool ipv6);
[[nodiscard]] Endpoint flash_crowd_source(uint32_t index);
[[nodiscard]] Endpoint flood_source(uint32_t index);
/// Returns the address of server `index`. Neighbouring indices have neighbouring addresses.
[[nodiscard]] Endpoint server_address(uint32_t index, bool ipv6, uint16_t port);

}  // namespace tributary::traffic

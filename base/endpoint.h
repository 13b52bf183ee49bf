// SPDX-License-Identifier: Apache-2.0
/// @file
/// An IP address with a UDP port: the sender or the destination of a packet.
///
/// Shapes: 16 address bytes in network order. IPv4 is stored mapped (::ffff:a.b.c.d), so one type
///         and one comparison serve both families.
/// Errors: parse() returns one line that names the fault. It does not look up host names; io/
///         does.
/// Tests:  tests/base/endpoint_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tributary {

/// Bytes of an address before the IPv4 address that it maps.
inline constexpr uint32_t kMappedPrefixBytes = 12;
inline constexpr uint32_t kMappedPrefixBits = 8 * kMappedPrefixBytes;

struct Endpoint {
  std::array<uint8_t, 16> address{};  ///< Network order; IPv4 mapped.
  uint32_t scope_id = 0;              ///< IPv6 link-local interface, else 0.
  uint16_t port = 0;                  ///< Host order.
  /// The local address at which the peer's packet arrived, as an index in the port that received
  /// it. That port sends from this address to the endpoint. 0: the kernel chooses.
  uint16_t via = 0;

  /// Compares all fields: a peer that moves to another local address is another endpoint.
  /// Hand-written because every packet needs it: the defaulted one calls memcmp().
  friend bool operator==(const Endpoint& a, const Endpoint& b) {
    return (a.difference(b) | static_cast<uint64_t>(a.via ^ b.via)) == 0;
  }
  /// Returns true if both name the same peer, whatever `via` says. Use it to compare a sender with
  /// an endpoint from the configuration.
  [[nodiscard]] bool is_same_peer(const Endpoint& other) const { return difference(other) == 0; }

  /// @param host_order_address Such as 0x7f000001 for 127.0.0.1.
  static Endpoint ipv4(uint32_t host_order_address, uint16_t port);
  /// Accepts "127.0.0.1:12000" and "[::1]:12000".
  static Result<Endpoint> parse(std::string_view text);

  [[nodiscard]] bool is_ipv4() const;
  /// The inverse of ipv4(). @pre is_ipv4(). @return such as 0x7f000001 for 127.0.0.1.
  [[nodiscard]] uint32_t ipv4_address() const;
  [[nodiscard]] bool is_multicast() const;
  /// Returns true if the port is not 0. A default-constructed Endpoint is not set.
  [[nodiscard]] bool is_set() const { return port != 0; }
  /// Returns the address without the port, and IPv6 without brackets: "127.0.0.1", "::1".
  [[nodiscard]] std::string host_text() const;
  /// The inverse of parse(); without `via`.
  [[nodiscard]] std::string to_string() const;

 private:
  /// Returns 0 if all fields except `via` are equal.
  [[nodiscard]] uint64_t difference(const Endpoint& other) const {
    const auto half = [](const Endpoint& endpoint, uint32_t offset_bytes) {
      uint64_t value;
      std::memcpy(&value, endpoint.address.data() + offset_bytes, sizeof value);
      return value;
    };
    return (half(*this, 0) ^ half(other, 0)) | (half(*this, 8) ^ half(other, 8)) |
           (scope_id ^ other.scope_id) | static_cast<uint64_t>(port ^ other.port);
  }
};
static_assert(sizeof(Endpoint) == 24, "`via` fills what would be padding");

}  // namespace tributary

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The addresses that a local server gives to its clients, so that a program sees them as senders.
///
/// Model:   An address of 100::/64 (the discard-only prefix of RFC 6666) with a scope that the
///          kernel gives to no address. So no packet from the network has such a sender.
/// Shapes:  The lower half is the client's process id (24 bits; Linux uses 22) and N (40 bits),
///          which counts the server's connections, so that a later client never has an earlier
///          one's address. The UDP port is the connection's place plus 1.
/// Threads: Pure functions.
/// Errors:  None.
/// Tests:   tests/io/local/client_address_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "base/byte_order.h"
#include "base/endpoint.h"

namespace tributary::io {

/// The kernel's scopes are numbers of interfaces, which are below 2^31.
inline constexpr uint32_t kLocalClientScope = UINT32_MAX;

inline constexpr uint32_t kLocalNumberBits = 40;

/// @param pid The client's process id; 0 if it is unknown, as in another PID namespace.
[[nodiscard]] inline Endpoint client_address(uint64_t number, uint32_t place, uint32_t pid = 0) {
  Endpoint address;
  address.address[0] = 0x01;
  store_be<uint64_t>(reinterpret_cast<std::byte*>(address.address.data()) + 8,
                     uint64_t{pid} << kLocalNumberBits | number);
  address.scope_id = kLocalClientScope;
  address.port = static_cast<uint16_t>(place + 1);
  return address;
}

[[nodiscard]] inline bool is_local_client(const Endpoint& address) {
  return address.scope_id == kLocalClientScope;
}

/// Returns the process id of a local client; 0 if it is unknown.
[[nodiscard]] inline uint32_t pid_of(const Endpoint& client) {
  const auto* lower = reinterpret_cast<const std::byte*>(client.address.data()) + 8;
  return static_cast<uint32_t>(load_be<uint64_t>(lower) >> kLocalNumberBits);
}

/// Returns an address for people: "local pid 1234" for a local client, or "local/N" for the N-th
/// one if its process id is unknown, and HOST:PORT for any other.
[[nodiscard]] inline std::string sender_text(const Endpoint& address) {
  if (!is_local_client(address)) return address.to_string();
  if (const uint32_t pid = pid_of(address); pid != 0) return "local pid " + std::to_string(pid);
  const auto* lower = reinterpret_cast<const std::byte*>(address.address.data()) + 8;
  return "local/" + std::to_string(load_be<uint64_t>(lower));
}

/// Returns the place of a local client.
[[nodiscard]] inline uint32_t place_of(const Endpoint& client) { return client.port - 1U; }

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The addresses that a local server gives to its clients, so that a program sees them as senders.
///
/// Model:   100::N, where N counts the server's connections (100::/64 is the discard-only prefix of
///          RFC 6666), with a scope that the kernel gives to no address. So no packet from the
///          network has such a sender, and a later client never has an earlier one's address.
/// Shapes:  The UDP port is the connection's place plus 1.
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

[[nodiscard]] inline Endpoint client_address(uint64_t number, uint32_t place) {
  Endpoint address;
  address.address[0] = 0x01;
  store_be<uint64_t>(reinterpret_cast<std::byte*>(address.address.data()) + 8, number);
  address.scope_id = kLocalClientScope;
  address.port = static_cast<uint16_t>(place + 1);
  return address;
}

[[nodiscard]] inline bool is_local_client(const Endpoint& address) {
  return address.scope_id == kLocalClientScope;
}

/// Returns an address for people: "local/N" for the N-th local client, HOST:PORT for any other.
[[nodiscard]] inline std::string sender_text(const Endpoint& address) {
  if (!is_local_client(address)) return address.to_string();
  const auto* number = reinterpret_cast<const std::byte*>(address.address.data()) + 8;
  return "local/" + std::to_string(load_be<uint64_t>(number));
}

/// Returns the place of a local client.
[[nodiscard]] inline uint32_t place_of(const Endpoint& client) { return client.port - 1U; }

}  // namespace tributary::io

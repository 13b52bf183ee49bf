// SPDX-License-Identifier: Apache-2.0
#include "io/udp/socket_address.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tributary::io {

socklen_t to_socket_address(const Endpoint& endpoint, int family, SocketAddress& address) {
  if (family == AF_INET) {
    if (!endpoint.is_ipv4()) return 0;
    address.v4 = {};
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(endpoint.port);
    address.v4.sin_addr = ipv4_address(endpoint);
    return sizeof address.v4;
  }
  address.v6 = {};
  address.v6.sin6_family = AF_INET6;
  address.v6.sin6_port = htons(endpoint.port);
  address.v6.sin6_scope_id = endpoint.scope_id;
  std::memcpy(&address.v6.sin6_addr, endpoint.address.data(), endpoint.address.size());
  return sizeof address.v6;
}

Endpoint from_socket_address(const SocketAddress& address) {
  if (address.any.sa_family == AF_INET) {
    return Endpoint::ipv4(ntohl(address.v4.sin_addr.s_addr), ntohs(address.v4.sin_port));
  }
  Endpoint endpoint;
  if (address.any.sa_family == AF_INET6) {
    std::memcpy(endpoint.address.data(), &address.v6.sin6_addr, endpoint.address.size());
    endpoint.scope_id = address.v6.sin6_scope_id;
    endpoint.port = ntohs(address.v6.sin6_port);
  }
  return endpoint;
}

bool is_wildcard(const Endpoint& endpoint) {
  // An IPv4 wildcard has only four zero bytes; the mapping prefix is before them.
  const auto* first = endpoint.address.data() + (endpoint.is_ipv4() ? kMappedPrefixBytes : 0);
  return std::all_of(first, endpoint.address.data() + 16, [](uint8_t byte) { return byte == 0; });
}

bool is_loopback(const Endpoint& endpoint) {
  if (endpoint.is_ipv4()) return endpoint.address[kMappedPrefixBytes] == 127;
  constexpr std::array<uint8_t, 16> kIpv6Loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return endpoint.address == kIpv6Loopback;
}

in_addr ipv4_address(const Endpoint& endpoint) {
  in_addr address{};
  std::memcpy(&address, endpoint.address.data() + kMappedPrefixBytes, sizeof address);
  return address;
}

}  // namespace tributary::io

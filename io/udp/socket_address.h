// SPDX-License-Identifier: Apache-2.0
/// @file
/// Endpoint to the kernel's socket addresses and back.
///
/// Shapes:  An AF_INET6 socket takes IPv4 destinations mapped (::ffff:a.b.c.d), as Endpoint keeps
///          them; an AF_INET socket takes IPv4 only.
/// Threads: Pure functions.
/// Tests:   tests/io/udp/resolve_test.cc, tests/io/udp/udp_port_test.cc
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/endpoint.h"

namespace tributary::io {

/// Room for either family's address.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

/// Fills `address` for a socket of `family` (AF_INET or AF_INET6).
/// @return bytes used; 0 if an AF_INET socket cannot name this endpoint.
[[nodiscard]] socklen_t to_socket_address(const Endpoint& endpoint, int family,
                                          SocketAddress& address);

/// The inverse; a family other than the two gives a default-made Endpoint.
[[nodiscard]] Endpoint from_socket_address(const SocketAddress& address);

/// [::] or 0.0.0.0, whatever the port.
[[nodiscard]] bool is_wildcard(const Endpoint& endpoint);

/// The last four address bytes of an IPv4 endpoint, in network order.
[[nodiscard]] in_addr ipv4_address(const Endpoint& endpoint);

}  // namespace tributary::io

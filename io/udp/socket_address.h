// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts an Endpoint to the kernel's socket address and back.
///
/// Shapes:  An AF_INET6 socket takes IPv4 destinations in mapped form (::ffff:a.b.c.d), as Endpoint
///          stores them. An AF_INET socket takes IPv4 only.
/// Threads: Pure functions.
/// Tests:   tests/io/udp/resolve_test.cc, tests/io/udp/udp_port_test.cc
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/endpoint.h"

namespace tributary::io {

/// Holds an address of either family.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

/// Fills `address` for a socket of `family` (AF_INET or AF_INET6).
/// @return bytes used; 0 if an AF_INET socket cannot send to this endpoint.
[[nodiscard]] socklen_t to_socket_address(const Endpoint& endpoint, int family,
                                          SocketAddress& address);

/// Returns the endpoint of a socket address. Any other family gives a default Endpoint.
[[nodiscard]] Endpoint from_socket_address(const SocketAddress& address);

/// Returns true for [::] and 0.0.0.0 with any port.
[[nodiscard]] bool is_wildcard(const Endpoint& endpoint);

/// Returns true for [::1] and 127.0.0.0/8 with any port: only this machine can reach it.
[[nodiscard]] bool is_loopback(const Endpoint& endpoint);

/// Returns the last four address bytes of an IPv4 endpoint, in network order.
[[nodiscard]] in_addr ipv4_address(const Endpoint& endpoint);

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the UDP socket of this machine that receives the packets to an address, and its user.
/// Abstract Unix names belong to whoever binds them first, so a client believes a local server only
/// if its user also holds this socket.
///
/// Model:   The kernel looks the socket up as it does for a packet (NETLINK_SOCK_DIAG). A kernel
///          without this service still lists the sockets in /proc/net/udp and /proc/net/udp6.
/// Trust:   docs/security.md, "Shared memory", tells which addresses two users can hold together.
/// Threads: Any; makes system calls.
/// Errors:  Nothing is found if the kernel tells nothing.
/// Tests:   tests/io/local/udp_owner_test.cc
#pragma once

#include <sys/types.h>

#include <iosfwd>
#include <optional>

#include "base/endpoint.h"

namespace tributary::io {

struct UdpOwner {
  Endpoint listen;  ///< The address of the socket: the one asked for, 0.0.0.0 or [::].
  uid_t user = 0;

  friend bool operator==(const UdpOwner&, const UdpOwner&) = default;
};

/// Returns the owner of the socket that receives packets to `address`. Returns nothing if there is
/// none, or if its user has no number in this user namespace.
[[nodiscard]] std::optional<UdpOwner> udp_owner(const Endpoint& address);

/// Returns the owner according to one of the kernel's lists: that of the address itself, else that
/// of the wildcard of its family. Never returns [::] for an IPv4 address, because a list does not
/// tell whether such a socket receives IPv4. Returns nothing if several users share an address.
[[nodiscard]] std::optional<UdpOwner> listed_udp_owner(std::istream& list, const Endpoint& address);

}  // namespace tributary::io

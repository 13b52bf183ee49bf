// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tells whether a user holds a UDP address on this machine. Abstract Unix names belong to whoever
/// binds them first, so a client believes a local server only if its user also holds the UDP
/// address that the client would send to otherwise.
///
/// Model:   Linux lists the UDP sockets of a network namespace in /proc/net/udp and /proc/net/udp6.
/// Threads: Any; reads a file.
/// Errors:  False if the lists cannot be read.
/// Tests:   tests/io/local/udp_owner_test.cc
#pragma once

#include <sys/types.h>

#include <string>

#include "base/endpoint.h"

namespace tributary::io {

/// Returns true if a UDP socket of this user is bound to exactly this address and port.
[[nodiscard]] bool holds_udp_address(uid_t user, const Endpoint& address);

/// Returns true if a line of the lists is a socket of this user, bound to this address.
[[nodiscard]] bool is_line_of(const std::string& line, uid_t user, const Endpoint& address);

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Listening sockets of the control API, and the loop that accepts their connections.
///
/// Threads: accept_until() runs in one thread; everything else at the start.
/// Bounds:  The kernel keeps kBacklog connections that nobody has accepted.
/// Errors:  One line with the address, the cause and the remedy. accept_until() survives every
///          error: a process without a free descriptor accepts callers as soon as it has one.
/// Tests:   tests/server/control/http_server_tcp_test.cc
#pragma once

#include <functional>
#include <string>

#include "base/endpoint.h"
#include "base/result.h"
#include "io/file_descriptor.h"

namespace tributary::control {

/// Connections that wait in the kernel.
inline constexpr int kBacklog = 128;

/// Listens on a Unix socket that only this user and root can connect to.
/// @pre The caller holds the claim of claim_socket().
[[nodiscard]] Result<io::FileDescriptor> listen_on_path(const std::string& path);

/// Listens on a TCP port.
[[nodiscard]] Result<io::FileDescriptor> listen_on_port(const Endpoint& at);

/// Accepts connections until `stop` is readable. Waits and tries again after an error, for example
/// while no descriptor is free.
/// @param listener A listening socket that does not block.
/// @param take     Takes ownership of each connection. It may block.
void accept_until(int stop, int listener, const std::function<void(int)>& take);

}  // namespace tributary::control

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Listening sockets of the control API. They do not block.
///
/// Threads: Any, at the start.
/// Bounds:  The kernel keeps kBacklog connections that nobody has accepted.
/// Errors:  One line with the address, the cause and the remedy.
/// Tests:   tests/server/control/http_server_tcp_test.cc
#pragma once

#include <string>

#include "base/endpoint.h"
#include "base/result.h"
#include "io/file_descriptor.h"

namespace tributary::control {

/// Connections that wait in the kernel. A caller that finds no room asks after a second, so that a
/// thousand callers at once must fit.
inline constexpr int kBacklog = 1024;

/// Listens on a Unix socket that only this user and root can connect to.
/// @pre The caller holds the claim of claim_socket().
[[nodiscard]] Result<io::FileDescriptor> listen_on_path(const std::string& path);

/// Listens on a TCP port.
[[nodiscard]] Result<io::FileDescriptor> listen_on_port(const Endpoint& at);

}  // namespace tributary::control

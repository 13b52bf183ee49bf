// SPDX-License-Identifier: Apache-2.0
/// @file
/// Closes Unix sockets that may hold a stranger's descriptors, in threads of their own.
///
/// Model:   Closing a Unix socket closes the descriptors in its unread messages. A stranger can
///          choose one whose closing blocks for hours: a TCP connection with unsent bytes and
///          SO_LINGER.
/// Threads: Any. The threads end by themselves, at the latest with the process.
/// Errors:  None. Without a new thread, the socket is closed by the caller.
/// Memory:  A thread for each socket; at most kBackgroundClosesMax if callers ask
///          background_close_count().
/// Tests:   tests/io/local/hostile_client_test.cc
#pragma once

#include <cstdint>

#include "io/file_descriptor.h"

namespace tributary::io {

/// Most sockets of a process that close in the background. Assumed.
inline constexpr uint32_t kBackgroundClosesMax = 16;

/// Returns the number of sockets that are being closed. At kBackgroundClosesMax, accept no further
/// strangers.
[[nodiscard]] uint32_t background_close_count();

/// Closes the socket without waiting for it.
void close_in_background(FileDescriptor socket);

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A service manager for tests: a datagram socket, and the variables of sd_notify(3) that name it.
///
/// Waiting: Always in poll() and with a deadline; a message that is missing by then is empty.
/// Threads: One; it sets variables of the process, which child processes inherit.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <string>

#include "io/file_descriptor.h"
#include "tests/support/scratch_directory.h"

namespace tributary::testing {

class NotifySocket {
 public:
  /// @param watchdog_us Value of WATCHDOG_USEC; empty: no watchdog.
  explicit NotifySocket(const std::string& watchdog_us = "")
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_.path() / "notify";
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), /*overwrite=*/1);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    if (!watchdog_us.empty()) setenv("WATCHDOG_USEC", watchdog_us.c_str(), /*overwrite=*/1);
  }
  ~NotifySocket() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  /// Waits for the next message. @return the empty text if none came in time.
  std::string receive() {
    constexpr int kPatienceMs = 20'000;
    return receive_within(kPatienceMs);
  }
  /// Returns whether no message waits.
  bool is_empty() { return receive_within(0).empty(); }

 private:
  std::string receive_within(int limit_ms) {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, limit_ms) != 1) return {};
    char message[4096];
    const ssize_t bytes = recv(socket_.get(), message, sizeof(message), 0);
    return bytes < 0 ? std::string() : std::string(message, static_cast<size_t>(bytes));
  }

  ScratchDirectory folder_;
  io::FileDescriptor socket_;
};

}  // namespace tributary::testing

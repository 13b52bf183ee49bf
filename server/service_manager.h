// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages to the service manager that started this process (systemd), as in sd_notify(3).
///
/// Model:   One datagram for each message, with a VARIABLE=VALUE in each line, to the Unix socket
///          that NOTIFY_SOCKET names. Without that variable there is no manager, and nothing is
///          sent.
/// Threads: One.
/// Errors:  A manager that does not take a message within a second misses it; the result says so.
/// Tests:   tests/server/service_manager_test.cc, tests/system/service_test.cc
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "io/file_descriptor.h"

namespace tributary::server {

/// Longest time between two messages about the state of the service.
inline constexpr Duration kStatusEvery = seconds(5);

class ServiceManager {
 public:
  /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. A watchdog for another process is none.
  /// @return an Error if a variable has no allowed value.
  static Result<ServiceManager> from_environment();

  [[nodiscard]] bool is_present() const { return socket_.is_open(); }
  /// Returns how often report_alive() must be called: half the watchdog's time, at most
  /// kStatusEvery.
  [[nodiscard]] Duration report_every() const;

  /// Tells that the service is ready. @param status One line for people, as in systemctl status.
  Result<void> report_ready(std::string_view status);
  /// Updates the status line and, if a watchdog runs, restarts its time.
  Result<void> report_alive(std::string_view status);
  /// Tells that the service ends, and asks for this much time before the manager kills it.
  Result<void> report_stopping(Duration within);

 private:
  ServiceManager() = default;

  Result<void> send(const std::string& message);

  io::FileDescriptor socket_;  ///< Closed without a manager.
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
  std::optional<Duration> watchdog_;
};

}  // namespace tributary::server

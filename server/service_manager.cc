// SPDX-License-Identifier: Apache-2.0
#include "server/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "base/errno_text.h"
#include "base/number_text.h"

namespace tributary::server {
namespace {

constexpr timeval kSendWithin{.tv_sec = 1, .tv_usec = 0};
/// A day; a longer watchdog makes no difference here.
constexpr uint64_t kWatchdogUsMax = 86'400'000'000;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// Returns the time of this process's watchdog; none if there is none.
Result<std::optional<Duration>> watchdog_of_environment() {
  const std::string_view text = variable("WATCHDOG_USEC");
  if (text.empty()) return std::optional<Duration>();
  const auto us = parse_number<uint64_t>(text);
  if (!us || *us == 0) {
    return failure(fmt::format(
        "WATCHDOG_USEC='{}' is not allowed; allowed: a number of microseconds above 0", text));
  }
  const std::string_view pid = variable("WATCHDOG_PID");
  if (!pid.empty() && parse_number<uint64_t>(pid) != static_cast<uint64_t>(getpid())) {
    return std::optional<Duration>();
  }
  return std::optional(microseconds(static_cast<int64_t>(std::min(*us, kWatchdogUsMax))));
}

/// Returns the cause why the path of a socket is not allowed; null if it is.
const char* why_refused(std::string_view path) {
  if (path[0] != '/' && path[0] != '@') return "must start with / or @";
  return path.size() < sizeof(sockaddr_un::sun_path) ? nullptr : "is too long";
}

}  // namespace

Result<ServiceManager> ServiceManager::from_environment() {
  ServiceManager manager;
  const std::string_view path = variable("NOTIFY_SOCKET");
  if (path.empty()) return manager;
  auto watchdog = watchdog_of_environment();
  if (!watchdog) return tl::unexpected(watchdog.error());
  if (const char* cause = why_refused(path)) {
    return failure(fmt::format("NOTIFY_SOCKET='{}' {}", path, cause));
  }
  manager.watchdog_ = *watchdog;
  manager.address_.sun_family = AF_UNIX;
  path.copy(manager.address_.sun_path, path.size());
  if (path[0] == '@') manager.address_.sun_path[0] = '\0';  // The abstract namespace.
  manager.address_bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  manager.socket_ = io::FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!manager.is_present() || setsockopt(manager.socket_.get(), SOL_SOCKET, SO_SNDTIMEO,
                                          &kSendWithin, sizeof(kSendWithin)) != 0) {
    return system_failure(errno, "no socket for NOTIFY_SOCKET");
  }
  return manager;
}

Duration ServiceManager::report_every() const {
  return watchdog_ ? std::min(*watchdog_ / 2, kStatusEvery) : kStatusEvery;
}

Result<void> ServiceManager::report_ready(std::string_view status) {
  return send(fmt::format("READY=1\nSTATUS={}", status));
}

Result<void> ServiceManager::report_alive(std::string_view status) {
  return send(fmt::format("STATUS={}{}", status, watchdog_ ? "\nWATCHDOG=1" : ""));
}

Result<void> ServiceManager::report_stopping(Duration within) {
  return send(fmt::format("STOPPING=1\nSTATUS=waiting for workers to leave\nEXTEND_TIMEOUT_USEC={}",
                          in_nanoseconds(within) / 1'000));
}

Result<void> ServiceManager::send(const std::string& message) {
  if (!is_present()) return {};
  if (sendto(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&address_), address_bytes_) >= 0) {
    return {};
  }
  return system_failure(errno, "the service manager at NOTIFY_SOCKET took no message");
}

}  // namespace tributary::server

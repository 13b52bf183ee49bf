// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_service.h"

#include <fmt/format.h>

#include <utility>

namespace tributary::cli {
namespace {

/// Time for the end itself, beside --linger-s. Assumed: generous for a loaded machine.
constexpr Duration kEndWithin = seconds(30);

timespec to_timespec(Duration duration) {
  const int64_t ns = in_nanoseconds(duration);
  return {.tv_sec = ns / kNanosecondsPerSecond, .tv_nsec = ns % kNanosecondsPerSecond};
}

}  // namespace

std::string status_line(const nlohmann::json& stats) {
  uint64_t packets = 0;
  for (const auto& core : stats.value("cores", nlohmann::json::array())) {
    packets += core.value("packets", uint64_t{0});
  }
  return fmt::format("{} packets", packets);
}

ServiceReports::ServiceReports(server::ServiceManager manager,
                               std::function<void(const std::string&)> warn,
                               std::function<std::string()> status)
    : manager_(std::move(manager)),
      warn_(std::move(warn)),
      status_(std::move(status)),
      pause_(to_timespec(manager_.report_every())) {
  if (manager_.is_present()) check(manager_.report_ready(status_()));
}

void ServiceReports::report() {
  if (manager_.is_present()) check(manager_.report_alive(status_()));
}

void ServiceReports::report_end(Duration linger) {
  check(manager_.report_stopping(linger + kEndWithin));
}

void ServiceReports::check(const Result<void>& sent) {
  if (sent || std::exchange(warned_, true)) return;
  warn_(sent.error().text);
}

}  // namespace tributary::cli

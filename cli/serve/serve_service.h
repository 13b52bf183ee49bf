// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reports to the service manager while a server runs.
///
/// Model:   "ready" at the start, a status line every few seconds, "stopping" at the end. A report
///          asks every core first, so a core that hangs stops the reports, and the watchdog ends
///          the server. Without a manager, nothing is asked or sent.
/// Threads: One.
/// Errors:  A message that the manager does not take gives one warning; the server goes on.
/// Tests:   tests/cli/serve/serve_service_test.cc, tests/system/service_test.cc
#pragma once

#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/time.h"
#include "server/service_manager.h"

namespace tributary::cli {

/// Returns the packets in the counters of a server, as in its --json: "400 packets".
[[nodiscard]] std::string status_line(const nlohmann::json& stats);

class ServiceReports {
 public:
  /// Reports that the server is ready.
  /// @param warn   Writes a warning: a report could not be sent.
  /// @param status Returns one line after every core has answered.
  ServiceReports(server::ServiceManager manager, std::function<void(const std::string&)> warn,
                 std::function<std::string()> status);

  /// Returns the longest time between two calls of report(); null without a manager: no limit.
  [[nodiscard]] const timespec* pause() const { return manager_.is_present() ? &pause_ : nullptr; }
  void report();
  /// Reports that the server ends, at the latest `linger` from the call.
  void report_end(Duration linger);

 private:
  void check(const Result<void>& sent);

  server::ServiceManager manager_;
  const std::function<void(const std::string&)> warn_;
  const std::function<std::string()> status_;
  const timespec pause_;
  bool warned_ = false;
};

}  // namespace tributary::cli

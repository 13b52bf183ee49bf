// SPDX-License-Identifier: Apache-2.0
/// @file
/// The control API: one JSON answer for each URL. docs/monitoring.md describes the fields.
///
/// Threads: Any. Each call takes its own snapshot.
/// Errors:  404 for an unknown URL, job or source, 405 for another method than the URL's, 400 for a
///          query that the URL does not take; those of the commands are in job_routes.h and
///          log_routes.h. 503 if a core hangs. The body is {"error": TEXT}.
/// Tests:   tests/server/control/api_test.cc, job_routes_test.cc
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <string>

#include "server/control/history.h"
#include "server/control/http_server.h"
#include "server/control/token_gate.h"
#include "server/job_control.h"
#include "server/log_control.h"
#include "server/record_control.h"
#include "server/snapshot.h"

namespace tributary::control {

struct ApiConfig {
  std::string name;     ///< Name of this server.
  std::string version;  ///< Version of the program.
  std::function<server::Snapshot()> snapshot;
  std::function<bool()> is_ready;      ///< False: the server only waits for its workers to leave.
  nlohmann::json settings;             ///< The server's part of /v1/config.
  server::JobControl* jobs = nullptr;  ///< Null: jobs cannot be changed.
  const History* history = nullptr;    ///< Null: no history is kept.
  std::function<GateCounters()> http_counters = {};  ///< Counters of the TCP port; empty: none.
  const ConnectionCounters* connections = nullptr;   ///< Counters of the TCP port; null: none.
  std::function<nlohmann::json()> program =
      {};                             ///< Counters of a packet program; empty: there is none.
  server::LogControl* log = nullptr;  ///< Null: there is no log.
  server::RecordControl* recorder = nullptr;  ///< Null: there is no flight recorder.
};

/// A request that asks the cores waits for earlier ones at most this long.
inline constexpr std::chrono::milliseconds kCoresWithin{1000};

class Api {
 public:
  explicit Api(ApiConfig config) : config_(std::move(config)) {}

  [[nodiscard]] Reply handle(const Request& request) const;
  /// Returns `answer()`, which asks the cores. A core that hangs keeps all threads but one waiting.
  /// The next request gets 503 after kCoresWithin, and further ones at once, until a thread is
  /// free. So requests that ask no core are answered.
  [[nodiscard]] Reply ask_cores(const std::function<Reply()>& answer) const;

  [[nodiscard]] const ApiConfig& config() const { return config_; }

 private:
  ApiConfig config_;
  mutable std::counting_semaphore<kThreads> free_threads_{kThreads - 1};
  /// A request has waited for kCoresWithin in vain since a thread was last released. Relaxed: it
  /// only decides how long a request waits.
  mutable std::atomic<bool> cores_hang_{false};
};

}  // namespace tributary::control

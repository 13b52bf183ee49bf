// SPDX-License-Identifier: Apache-2.0
/// @file
/// The dashboard: HTML pages about a running server, and the control API for everything else.
///
/// Model:   `/` is the server, `/jobs/ID` a job, `/events` the lines of GET /v1/log, if the API has
///          it. The files of web/ are the templates. Pages are complete without their script.
/// Threads: Any. Each call takes its own snapshot.
/// Errors:  404 for a job that does not exist. Other URLs get the API's answer.
/// Tests:   tests/server/control/pages_test.cc
#pragma once

#include <string>

#include "server/control/api.h"
#include "server/control/http_server.h"

namespace tributary::control {

class Pages {
 public:
  /// @param api Must outlive this object.
  explicit Pages(const Api& api) : api_(api) {}

  [[nodiscard]] Reply handle(const Request& request) const;

 private:
  [[nodiscard]] Reply page(const std::string& kind, const std::string& title, std::string main,
                           const nlohmann::json& status, int status_code = 200) const;
  [[nodiscard]] Reply dashboard() const;
  [[nodiscard]] Reply job(const std::string& id) const;
  [[nodiscard]] Reply events(const Reply& log) const;
  [[nodiscard]] Reply log() const;

  const Api& api_;
};

/// Returns the rows of /events, the newest line first.
/// @param log The answer of /v1/log: a list of texts or objects, or an object that has one.
[[nodiscard]] std::string event_rows(const nlohmann::json& log);

}  // namespace tributary::control

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The URL of the server's log: its last lines and its level. docs/monitoring.md describes it.
///
/// Threads: Any, several at once.
/// Errors:  400 for a body that is not {"level": NAME}, 404 if the server keeps no log.
/// Tests:   tests/server/control/log_routes_test.cc
#pragma once

#include "server/control/api.h"
#include "server/control/job_routes.h"

namespace tributary::control {

/// GET /v1/log: the last lines, oldest first, with the level and the log's counters.
[[nodiscard]] Reply get_log(const ApiConfig& config, const Request&, const UrlParts&);
/// PATCH /v1/log: changes the level.
[[nodiscard]] Reply patch_log(const ApiConfig& config, const Request& request, const UrlParts&);

}  // namespace tributary::control

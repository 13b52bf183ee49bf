// SPDX-License-Identifier: Apache-2.0
/// @file
/// The body of a request to the control API.
///
/// Threads: Plain functions.
/// Errors:  One line, for status 400.
/// Tests:   tests/server/control/job_routes_test.cc, log_routes_test.cc
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "server/control/http_server.h"

namespace tributary::control {

/// Reads a body that is a JSON object.
/// @param example An object that the URL takes, for the error.
[[nodiscard]] Result<nlohmann::json> object_of(const Request& request, const char* example);

}  // namespace tributary::control

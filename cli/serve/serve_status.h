// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of an aggregator in one line, for the service manager.
///
/// Tests:   tests/cli/serve/serve_status_test.cc
#pragma once

#include <string>

#include "server/snapshot.h"

namespace tributary::cli {

/// Returns "2 jobs, 3 of 8 workers in sessions, 400 blocks".
[[nodiscard]] std::string status_line(const server::Snapshot& snapshot);

}  // namespace tributary::cli

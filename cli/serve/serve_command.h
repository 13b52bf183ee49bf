// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary serve`: the aggregator appliance over UDP sockets or frame devices.
///
/// Output:  "ready" on standard output when the server can receive; warnings and errors on standard
///          error. --json is written at the start, on SIGUSR1, and when SIGINT or SIGTERM ends it.
/// Errors:  A configuration that cannot be served gives one line and exit code 2.
/// Tests:   tests/system/
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command.
/// @param exit_code Set after the server has run.
void add_serve_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

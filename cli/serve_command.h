// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary serve`: the aggregator appliance over UDP sockets.
///
/// Output: A line "ready" on standard output once it can receive. Warnings and errors go to
/// standard
///         error. SIGUSR1 writes the counters to --json; SIGINT and SIGTERM end it and write them
///         too.
/// Errors: A configuration that cannot be served stops the start with one line and exit code 2.
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command. @param exit_code Set when it has run.
void add_serve_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

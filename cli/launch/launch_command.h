// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary launch`: starts the ranks of a training script and, unless a server is
/// named, an aggregator for them.
///
/// Output: The ranks' lines behind "[RANK] "; who failed, on standard error.
/// Errors: A command line that cannot be run: one line, exit code 2. Else the exit code is that of
///         the first rank that failed.
/// Tests:  tests/cli/launch/launch_plan_test.cc, tests/cli/launch/launch_run_test.cc, tests/python/
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command. @param exit_code Set when it has run.
void add_launch_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary launch`: starts the ranks of a training script and, unless a server is
/// named, an aggregator for them.
///
/// Output:  The ranks' lines after "[RANK] " on standard output; failures on standard error.
/// Errors:  A refused command line gives one line and exit code 2. Otherwise the exit code is the
///          first failed rank's.
/// Tests:   tests/cli/launch/launch_plan_test.cc, tests/cli/launch/launch_run_test.cc,
///          tests/python/
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command.
/// @param exit_code Set after it has run.
void add_launch_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

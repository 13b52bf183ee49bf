// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary worker`: one rank of a job, for tests, measurements and demonstrations.
///
/// Errors:  A refused flag or combination of flags gives one line and kExitUsage. A failed run
///          gives one line on standard error and exit status 1.
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command. If the command line names it, parsing runs it and writes its exit status to
/// `exit_code`, which must outlive the parsing.
void add_worker_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

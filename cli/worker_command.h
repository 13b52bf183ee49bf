// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary worker`: one rank of a job, for tests, measurements and demonstrations.
///
/// Errors: A refused flag or combination of flags is one line and kExitUsage; a run that fails is
///         one line on standard error and exit status 1.
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command. When the command line names it, the parse runs it and leaves its exit status
/// in `exit_code`, which must outlive the parse.
void add_worker_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

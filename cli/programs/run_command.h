// SPDX-License-Identifier: Apache-2.0
/// @file
/// The commands `tributary programs` and `tributary run PROGRAM`.
///
/// Threads: One.
/// Errors:  As in cli/programs/capture_command.h.
/// Tests:   tests/system/programs_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Declares both commands.
void add_program_commands(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

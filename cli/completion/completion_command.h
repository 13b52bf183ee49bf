// SPDX-License-Identifier: Apache-2.0
/// @file
/// The hidden command `tributary completion bash|zsh|fish`: prints a shell's completion script.
///
/// Output:  The script on standard output; `cmake --install` puts it where the shell looks.
/// Tests:   tests/cli/completion/completion_scripts_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command.
/// @param program The program with all its commands; must outlive the parsing.
void add_completion_command(CLI::App& program);

}  // namespace tributary::cli

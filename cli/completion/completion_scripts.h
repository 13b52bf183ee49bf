// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the script with which a shell completes a program's commands, flags and values.
///
/// Model:   bash takes the script from a folder of bash-completion, zsh from a folder of $fpath as
///          _PROGRAM, fish from a folder of $fish_complete_path as PROGRAM.fish.
/// Threads: Any; nothing is shared.
/// Tests:   tests/cli/completion/completion_scripts_test.cc
#pragma once

#include <span>
#include <string>

#include "cli/completion/command_tree.h"

namespace tributary::cli {

/// Returns the script for bash. Its function is _PROGRAM.
/// @param program  Letters only.
/// @param commands As command_tree() returns them.
[[nodiscard]] std::string bash_completion(const std::string& program,
                                          std::span<const CompletedCommand> commands);
/// As bash_completion(), for zsh.
[[nodiscard]] std::string zsh_completion(const std::string& program,
                                         std::span<const CompletedCommand> commands);
/// As bash_completion(), for fish.
[[nodiscard]] std::string fish_completion(const std::string& program,
                                          std::span<const CompletedCommand> commands);

}  // namespace tributary::cli

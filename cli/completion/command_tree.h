// SPDX-License-Identifier: Apache-2.0
/// @file
/// The commands and flags of a program as shell completions need them, read from CLI11.
///
/// Model:   One entry for each command that help shows; the program itself is the first.
/// Threads: Any; nothing is shared.
/// Tests:   tests/cli/completion/command_tree_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace tributary::cli {

enum class CompletedValue : uint8_t {
  kNone,    ///< A flag without a value.
  kText,    ///< A value that no shell can guess.
  kFile,    ///< A path.
  kChoice,  ///< One of CompletedOption::choices.
};

struct CompletedOption {
  std::vector<std::string> flags;  ///< With dashes: "-h", "--help". Empty: a positional argument.
  std::string help;                ///< One line.
  CompletedValue value = CompletedValue::kNone;
  std::vector<std::string> choices = {};
};

struct CompletedCommand {
  std::string path;  ///< The words after the program's name: "lab run"; empty: the program.
  std::string help;  ///< One line.
  std::vector<CompletedOption> options;
  std::vector<std::string> subcommands;  ///< The last words of their paths.

  /// Returns the last word of the path.
  [[nodiscard]] std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

/// Returns the program and its commands, each before its subcommands. Leaves hidden ones out.
[[nodiscard]] std::vector<CompletedCommand> command_tree(const CLI::App& program);

}  // namespace tributary::cli

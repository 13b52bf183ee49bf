// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks of values on the command line that all commands share.
///
/// Threads: One.
/// Errors:  Refused, while the command line is parsed, so that no run is lost.
/// Tests:   tests/cli/settings_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

#include "cli/settings.h"

namespace tributary::cli {

/// Passes a whole error line through CLI11, whose callbacks can report errors only by throwing.
class Refused : public CLI::ParseError {
 public:
  explicit Refused(std::string text) : CLI::ParseError("Refused", std::move(text), kExitUsage) {}
};

/// Lets the command and its subcommands refuse empty values, result files that cannot be written,
/// two results for standard output, and a result file that another flag names, too.
void check_given_values(CLI::App& app);

}  // namespace tributary::cli

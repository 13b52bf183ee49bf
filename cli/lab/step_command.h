// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary lab step`: through a scenario step by step, in a terminal or from a pipe.
///
/// Tests: tests/cli/lab/stepper_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command below `lab`. @param exit_code Set when it has run: 0 if the run ended well or
/// was left on purpose, 1 if it failed, 2 for a scenario that is not allowed.
void add_lab_step(CLI::App& lab, int& exit_code);

}  // namespace tributary::cli

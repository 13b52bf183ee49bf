// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary lab resources PROGRAM`: the resources that a pipeline program takes on a
/// Tofino, stage by stage, or the reason why it does not fit.
///
/// Tests: tests/tofino/switchml/program_test.cc (the report),
/// tests/cli/lab/resources_command_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tributary::cli {

/// Adds the command below `lab`. @param exit_code Set after a run: 0 if the program fits and the
/// files were written, else 1.
void add_lab_resources(CLI::App& lab, int& exit_code);

}  // namespace tributary::cli

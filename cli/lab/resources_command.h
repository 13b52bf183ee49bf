// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary lab resources PROGRAM`: what a pipeline program takes of a Tofino, stage
/// by stage, or why it does not fit.
///
/// Tests: tests/tofino/switchml/program_test.cc (the report),
/// tests/cli/lab/resources_command_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tributary::cli {

/// Adds the command below `lab`. @param exit_code Set when it has run: 0 if the program fits and
/// the files were written, 1 if not.
void add_lab_resources(CLI::App& lab, int& exit_code);

}  // namespace tributary::cli

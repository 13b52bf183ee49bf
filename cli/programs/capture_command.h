// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flags of a run of a packet program over a capture, for `tributary run PROGRAM` and for
/// programs outside this tree.
///
/// Threads: One.
/// Errors:  One line for a refused flag, file or output. A run that ends early prints its report,
///          then the reason, and fails.
/// Tests:   tests/system/programs_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "programs/capture_program.h"

namespace tributary::cli {

/// Lets `command` run `program`.
/// @param title Begins each error line: "tributary run filter".
void add_capture_run(CLI::App& command, const programs::CaptureProgram& program,
                     const std::string& title, int& exit_code);

/// Writes the file of `--json`; an empty path means none. Prints an error line if that fails.
/// @return whether it succeeded.
[[nodiscard]] bool write_json(const std::string& title, const std::string& path,
                              const nlohmann::ordered_json& json);

}  // namespace tributary::cli

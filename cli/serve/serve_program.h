// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flag `--program` of `tributary serve`.
///
/// Threads: One, at the start.
/// Errors:  One line with the flag, the value and the allowed values.
/// Tests:   tests/cli/serve/serve_program_test.cc
#pragma once

#include <string_view>

#include "base/key_table.h"
#include "base/result.h"
#include "programs/program.h"

namespace tributary::cli {

/// A program of the list, and its settings.
struct ChosenProgram {
  const programs::Program* program;
  KeyValues settings;
};

/// Parses "NAME[,key=value]...".
[[nodiscard]] Result<ChosenProgram> parse_program(std::string_view text);

}  // namespace tributary::cli

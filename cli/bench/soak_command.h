// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary bench soak`.
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the soak to `tributary bench`.
/// @param exit_code Set after the soak has run: 0 only if every verdict holds and the JSON was
///   written.
void add_soak_command(CLI::App& bench, int& exit_code);

}  // namespace tributary::cli

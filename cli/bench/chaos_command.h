// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary bench chaos`.
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the chaos to `tributary bench`.
/// @param exit_code Set after the chaos has run: 0 only if every verdict holds and the JSON was
///   written.
void add_chaos_command(CLI::App& bench, int& exit_code);

}  // namespace tributary::cli

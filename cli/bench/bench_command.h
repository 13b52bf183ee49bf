// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary bench`: measures this machine against plain baselines in the same run.
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command and its benchmarks.
/// @param exit_code Set after a benchmark has run; not 0 if its results were wrong or could not be
///   written.
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

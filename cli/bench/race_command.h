// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary bench race`, and the hidden commands that it starts as workers and
/// servers.
///
/// Tests:   tests/bench/race/race_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the race to `tributary bench`.
/// @param exit_code Set after the race has run; not 0 if a sum was wrong, nothing ran, or a file
///   could not be written.
void add_race_command(CLI::App& bench, int& exit_code);

/// Adds `race-worker` and `race-ps-server`, which help does not list.
void add_race_processes(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

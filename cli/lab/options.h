// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the commands of `tributary lab` share: scenario keys as flags, running points with progress
/// and Ctrl-C, writing files.
///
/// Errors: One line on standard error that begins with the command's name.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "lab/scenario.h"
#include "lab/sweep/runner.h"

namespace tributary::cli {

/// Adds `--set key=value`, repeatable.
void add_set_flag(CLI::App& command, std::vector<WrittenKey>& settings);

/// Adds `--set` and a flag for every scenario key. @param settings Gets what was written,
/// in that order; it must stay where it is until the parse is over.
void add_scenario_flags(CLI::App& command, std::vector<WrittenKey>& settings);

/// The scenario of a file (an empty path: the defaults) and of what was written after it, the later
/// over the earlier.
[[nodiscard]] Result<lab::Scenario> read_scenario(const std::string& path,
                                                  const std::vector<WrittenKey>& settings);

/// What every command that runs points offers.
struct PointFlags {
  uint32_t threads = 0;
  std::string directory;
};
/// Adds --threads and --out.
void add_point_flags(CLI::App& command, PointFlags& flags);
void add_threads_flag(
    CLI::App& command, uint32_t& threads,
    const char* help = "Points at the same time; 0: as many as cores, or one under mpirun");

/// Points that have been run, or why not.
struct RanPoints {
  std::vector<lab::PointOutcome> outcomes;  ///< Shape [points].
  /// Set when the command is over: the program's exit status. Messages are printed.
  std::optional<int> exit_code;
};

/// Runs points over cores and ranks; a first Ctrl-C lets those in progress finish, a second ends
/// the process. Of several ranks only the first gets outcomes to write; the others' exit code is 0.
/// @param command For messages: "tributary lab sweep".
[[nodiscard]] RanPoints run_points_here(std::span<const lab::Point> points, const PointFlags& flags,
                                        std::string_view command);

/// A run that goes on past failed points.
struct RanWithFailures {
  lab::RunnerOutcome ran;
  std::optional<int> exit_code;  ///< As RanPoints::exit_code.
};

/// Does the same, but runs all points even if some fail.
[[nodiscard]] RanWithFailures run_all_points_here(std::span<const lab::Point> points,
                                                  const PointFlags& flags,
                                                  std::string_view command);

/// Prints "command: text". @return `exit_code`.
int complain(std::string_view command, std::string_view text, int exit_code);

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shared by the commands of `tributary lab`: flags for scenario keys, runs of points with progress
/// and Ctrl-C, output files.
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

/// Adds `--set` and a flag for every scenario key. @param settings Receives keys and values in the
/// order of the command line. Must outlive the parse.
void add_scenario_flags(CLI::App& command, std::vector<WrittenKey>& settings);

/// Returns the scenario of a file (an empty path: the defaults) with the settings applied in order.
[[nodiscard]] Result<lab::Scenario> read_scenario(const std::string& path,
                                                  const std::vector<WrittenKey>& settings);

/// The flags of all commands that run points.
struct PointFlags {
  uint32_t threads = 0;
  std::string directory;
};
/// Adds --threads and --out.
void add_point_flags(CLI::App& command, PointFlags& flags);
void add_threads_flag(
    CLI::App& command, uint32_t& threads,
    const char* help = "Points at the same time; 0: as many as cores, or one under mpirun");

/// The outcomes of a run that continues after failed points.
struct RanWithFailures {
  lab::RunnerOutcome ran;
  /// The program's exit status if the command has ended. Its messages have been printed.
  std::optional<int> exit_code;
};

/// Runs all points on all cores and MPI ranks, even if some fail. The first Ctrl-C lets points in
/// progress finish; the second ends the process. Only the first MPI rank receives the outcomes; the
/// others end with exit code 0.
/// @param command The prefix of messages: "tributary lab sweep".
[[nodiscard]] RanWithFailures run_all_points_here(std::span<const lab::Point> points,
                                                  const PointFlags& flags,
                                                  std::string_view command);

/// Prints "command: text". @return `exit_code`.
int complain(std::string_view command, std::string_view text, int exit_code);

}  // namespace tributary::cli

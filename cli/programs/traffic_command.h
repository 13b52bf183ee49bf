// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary traffic`: writes generated traffic to a capture file.
///
/// Threads: One.
/// Errors:  One line for settings that are out of range or do not go together, and for a file that
///          cannot be written.
/// Tests:   tests/cli/programs/traffic_command_test.cc, tests/cli/programs/traffic_report_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>

#include "traffic/config.h"

namespace tributary::cli {

struct TrafficOptions {
  traffic::Config config;
  traffic::FloodConfig flood;  ///< Used if `flood_kind` is set.
  traffic::FlashCrowdConfig flash_crowd;
  std::string flood_kind;   ///< Empty: no flood.
  bool flood_rate = false;  ///< --flood-rate was given; otherwise ten times --rate.
  bool flood_sources = false;
  std::string pulse_flag;  ///< The last flag given that only a pulse flood has; empty: none.
  bool has_flash_crowd = false;
  std::string out;   ///< Capture file; "-" is the standard output.
  std::string json;  ///< Result file; empty for none.
};

/// Declares the command.
CLI::App* add_traffic(CLI::App& app, TrafficOptions& options);

/// Runs the command. The summary goes to `out`, or to `err` if the capture goes to the standard
/// output.
/// @return 0, kExitUsage for refused settings, or 1 if a file cannot be written.
[[nodiscard]] int run_traffic(const TrafficOptions& options, std::ostream& out, std::ostream& err);

/// Declares the command with its callback, for the program.
void add_traffic_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli

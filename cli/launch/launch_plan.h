// SPDX-License-Identifier: Apache-2.0
/// @file
/// What `tributary launch` starts: the aggregator's command line, and each rank's program,
/// arguments and environment. Nothing is started here.
///
/// Model:   The ranks get the variables that torch.distributed and mpirun users know (RANK,
///          WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT) and TRIBUTARY_URL, which the client
///          library reads. A Python script is started through `python3 -m tributary.run`, which
///          makes the back end known to torch before the script runs.
/// Errors:  One line that names the flag, its value and what is allowed.
/// Tests:   tests/cli/launch/launch_plan_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tributary::cli {

struct LaunchConfig {
  uint32_t processes = 1;                 ///< Ranks started here, 1 … 256.
  std::vector<std::string> command = {};  ///< Script or program, and its arguments; not empty.

  std::string backend = "tributary";  ///< Told to the ranks; others need no aggregator.
  std::string server = {};            ///< HOST:PORT of a running appliance; empty: an own one.
  uint8_t job_id = 1;

  // Ranks on several machines.
  uint32_t world = 0;       ///< All ranks; 0: `processes`.
  uint32_t rank_first = 0;  ///< Rank of the first one here.
  std::string master = {};  ///< HOST:PORT where rank 0 meets the others; empty: a free port here.

  // The own aggregator's job.
  Duration straggler_timeout = {};   ///< 0: stragglers are waited for.
  Duration permanent_after = {};     ///< 0: as `tributary serve` has it.
  uint32_t job_window = 4096;        ///< Places of the job's window; a power of two.
  uint32_t history = 4;              ///< So that a straggler of some steps finds what it missed.
  std::string serve_json_path = {};  ///< Counters of the own aggregator; may be empty.

  Duration deadline = seconds(60);            ///< Of the ranks' waits.
  std::vector<std::string> url_options = {};  ///< KEY=VALUE, more of the library's URL keys.

  std::string python = {};  ///< Interpreter; empty: what the script's first line says.
  bool keep_going = false;  ///< Leave the other ranks alone when one fails.
};

/// What the launcher knows of its surroundings; empty is "not there".
struct LaunchSurroundings {
  std::string program;         ///< This program, started as the aggregator.
  std::string library;         ///< libtributary.so.
  std::string python_package;  ///< The folder that holds the package `tributary`.
  std::string search_path;     ///< As in PATH.
  uint16_t aggregator_port = 0;
  uint16_t master_port = 0;
  /// Names of variables that the user has set; those are left as they are where that makes sense.
  std::vector<std::string> variables_set;
  std::string python_path;  ///< The user's PYTHONPATH.
};

/// One program to start.
struct ProgramPlan {
  std::string name;                      ///< As messages call it.
  std::string program;                   ///< Path.
  std::vector<std::string> arguments;    ///< Without the program.
  std::vector<std::string> environment;  ///< NAME=VALUE.
};

struct LaunchPlan {
  bool own_aggregator = false;
  ProgramPlan aggregator;          ///< If own_aggregator.
  std::vector<ProgramPlan> ranks;  ///< Shape [processes].
};

[[nodiscard]] Result<LaunchPlan> plan_launch(const LaunchConfig& config,
                                             const LaunchSurroundings& around);

/// The interpreter of a Python script: `python` if given, else the one of the script's first line
/// (`#!/usr/bin/python3`, `#!/usr/bin/env python3`), else python3 from the search path.
[[nodiscard]] Result<std::string> interpreter_of(const std::string& script,
                                                 const std::string& python,
                                                 const std::string& search_path);

}  // namespace tributary::cli

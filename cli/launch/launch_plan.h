// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plans what `tributary launch` starts: the aggregator's command line, and each rank's program,
/// arguments and environment. Starts nothing.
///
/// Model:   The ranks get the variables known from torch.distributed (RANK, WORLD_SIZE, LOCAL_RANK,
///          MASTER_ADDR, MASTER_PORT) and TRIBUTARY_URL, which the client library reads. Python
///          scripts start through `python3 -m tributary.run`, which registers the back end with
///          torch first.
/// Errors:  One line that names the flag, its value and the values allowed.
/// Tests:   tests/cli/launch/launch_plan_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "auth/mode.h"
#include "base/result.h"
#include "base/time.h"

namespace tributary::cli {

struct LaunchConfig {
  uint32_t processes = 1;                 ///< Ranks started here, 1 … 256.
  std::vector<std::string> command = {};  ///< Script or program, and its arguments; not empty.

  std::string backend = "tributary";  ///< Passed to the ranks; others need no aggregator.
  std::string server = {};            ///< HOST:PORT of a running appliance; empty: start one.
  uint8_t job_id = 1;

  // For ranks on several machines.
  uint32_t world = 0;       ///< Ranks on all machines; 0: `processes`.
  uint32_t rank_first = 0;  ///< Number of the first rank started here.
  std::string master = {};  ///< HOST:PORT where rank 0 meets the others; empty: a free port here.

  /// Authentication of the job. A started aggregator and its ranks get a new secret; for a running
  /// appliance the secret comes from the environment or from a secret_file in `url_options`.
  auth::Mode auth = auth::Mode::kNone;

  // For the job of the aggregator that it starts.
  Duration straggler_timeout = {};   ///< 0: no straggler mitigation.
  Duration permanent_after = {};     ///< 0: two straggler timeouts.
  uint32_t job_window = 4096;        ///< Places of the job's window; a power of two.
  uint32_t history = 4;              ///< Lets a straggler some steps behind find missed results.
  std::string serve_json_path = {};  ///< File for the aggregator's counters; may be empty.

  Duration deadline = seconds(60);            ///< Longest wait of a rank.
  std::vector<std::string> url_options = {};  ///< KEY=VALUE, more keys for the library's URL.

  std::string python = {};  ///< Interpreter; empty: named by the script's first line.
  bool keep_going = false;  ///< Let the other ranks continue when one fails.
};

/// The launcher's surroundings. An empty string means that the item was not found.
struct LaunchSurroundings {
  std::string program;         ///< This program, started as the aggregator.
  std::string library;         ///< libtributary.so.
  std::string python_package;  ///< The folder that holds the package `tributary`.
  std::string search_path;     ///< The value of PATH.
  std::string secret;          ///< New and random, for a job with authentication.
  uint16_t aggregator_port = 0;
  uint16_t master_port = 0;
  /// Names of variables that the user has set and that must not be overwritten.
  std::vector<std::string> variables_set;
  std::string python_path;  ///< The user's PYTHONPATH.
};

/// One program to start.
struct ProgramPlan {
  std::string name;                      ///< Its name in messages.
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

/// Returns the interpreter of a Python script: `python` if given, else the one in the script's
/// first line (`#!/usr/bin/python3`, `#!/usr/bin/env python3`), else python3 from the search path.
[[nodiscard]] Result<std::string> interpreter_of(const std::string& script,
                                                 const std::string& python,
                                                 const std::string& search_path);

}  // namespace tributary::cli

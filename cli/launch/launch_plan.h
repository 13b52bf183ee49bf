// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plans the programs of `tributary launch`: the command lines of aggregators, and each rank's
/// program, arguments and environment. Starts nothing.
///
/// Model:   The ranks get the variables known from torch.distributed (RANK, WORLD_SIZE, LOCAL_RANK,
///          MASTER_ADDR, MASTER_PORT) and TRIBUTARY_URL, which the client library reads. Python
///          scripts and modules, also those of a command such as `python3 -u train.py`, start
///          through `python3 -m tributary.run`, which registers the back end with torch first.
/// Errors:  One line that names the flag, its value and the values allowed.
/// Tests:   tests/cli/launch/launch_plan_test.cc
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "auth/mode.h"
#include "base/result.h"
#include "base/time.h"
#include "cli/plan/plan_machines.h"

namespace tributary::cli {

struct LaunchConfig {
  uint32_t processes = 1;                 ///< Ranks started here, 1 … 256.
  std::vector<std::string> command = {};  ///< Script, program or -m MODULE, and its arguments.

  std::string backend = "tributary";  ///< Passed to the ranks; others need no aggregator.
  std::string server = {};            ///< HOST:PORT of a running appliance; empty: start one.
  std::string aggregators = "1";      ///< Started on this machine: a number, or "colocated".
  uint8_t job_id = 1;

  // For ranks on several machines.
  uint32_t world = 0;       ///< Ranks on all machines; 0: `processes`.
  uint32_t rank_first = 0;  ///< Number of the first rank started here.
  std::string master = {};  ///< HOST:PORT where rank 0 meets the others; empty: a free port here.
  /// The machines of colocated aggregators, each with `processes` ranks, and spare machines. They
  /// replace `world` and `rank_first`. No workers: this machine alone.
  PlanFlags machines = {};
  uint32_t node_rank = 0;  ///< This machine's place in machines.workers.
  /// Adds the tensors of a machine's ranks before they leave it.
  bool local_reduce = true;
  uint16_t local_port = 12'100;  ///< Port of the first lower aggregator; the others' follow.

  /// Authentication of the job. Started aggregators and their ranks share the user's
  /// TRIBUTARY_SECRET, or else a new secret; for a running appliance the secret comes from the
  /// environment or from a secret_file in `url_options`.
  auth::Mode auth = auth::Mode::kNone;

  // For the job of the aggregators that it starts.
  Duration straggler_timeout = {};   ///< 0: no straggler mitigation.
  Duration permanent_after = {};     ///< 0: two straggler timeouts.
  uint32_t job_window = 4096;        ///< Places of the job's window; a power of two.
  uint32_t history = 4;              ///< Lets a straggler some steps behind find missed results.
  std::string aggregator_cpus = {};  ///< CPUs for aggregators, as in "0-2,5"; ranks get the rest.
  uint32_t aggregator_cpu_percent = 100;  ///< Share of a CPU for each of their polling cores.
  std::string serve_json_path = {};       ///< File for the aggregator's counters; may be empty.

  /// Longest wait of a rank. Not set: the timeout of init_process_group(), else
  /// host::kDeadlineDefault.
  std::optional<Duration> deadline = {};
  std::vector<std::string> job_options = {};  ///< KEY=VALUE, more keys for `tributary serve --job`.
  std::vector<std::string> url_options = {};  ///< KEY=VALUE, more keys for the library's URL.

  std::string python = {};  ///< Interpreter; empty: named by the script's first line.
  bool keep_going = false;  ///< Let the other ranks continue when one fails.
};

/// Exit status of a rank that failed because of another rank or of the aggregator (tributary.run).
inline constexpr int kExitBecauseOfPeer = 75;

/// Most aggregators started on one machine.
inline constexpr uint32_t kLaunchAggregatorsMax = 16;

/// The facts about this machine that a plan depends on. An empty string means: not found.
struct HostFacts {
  std::string program;                     ///< This program, started as the aggregator.
  std::string library;                     ///< libtributary.so.
  std::string python_package;              ///< The folder that holds the package `tributary`.
  std::string search_path;                 ///< The value of PATH.
  std::string secret;                      ///< New and random, for a job with authentication.
  std::vector<uint16_t> aggregator_ports;  ///< Free ones, one for each aggregator of this machine.
  uint16_t master_port = 0;
  /// Names of variables that the user has set and that must not be overwritten.
  std::vector<std::string> variables_set;
  std::string python_path;  ///< The user's PYTHONPATH.
  std::vector<int> cpus;    ///< CPUs that this process may use.
  bool has_ipv6 = true;     ///< Sockets for IPv6, which also take IPv4, can be opened.
};

/// One program to start.
struct ProgramPlan {
  std::string name;                      ///< Its name in messages.
  std::string program;                   ///< Path.
  std::vector<std::string> arguments;    ///< Without the program.
  std::vector<std::string> environment;  ///< NAME=VALUE.
  /// For an aggregator: HOST:PORT of the aggregator whose tensor share it adds. A lower one
  /// has that of the one above it.
  std::string share = {};
};

struct LaunchPlan {
  /// Checks the requirements of a Python script; prints one line if one is missing.
  std::optional<ProgramPlan> check;
  std::vector<ProgramPlan> aggregators;
  size_t shares = 1;  ///< Shares of a tensor on all machines, each with an aggregator.
  std::chrono::seconds aggregators_linger{};  ///< Time that the aggregators may linger at the end.
  std::vector<ProgramPlan> ranks;             ///< Shape [processes].
  std::vector<int> rank_cpus;                 ///< CPUs of the ranks; empty: any.
};

/// Returns how many free ports the plan needs for aggregators; 0: it starts none, or at the ports
/// that the list of machines names.
[[nodiscard]] uint32_t free_ports_wanted(const LaunchConfig& config);

[[nodiscard]] Result<LaunchPlan> plan_launch(const LaunchConfig& config, const HostFacts& facts);

/// Returns the interpreter of a Python script: `python` if given, else the one in the script's
/// first line (`#!/usr/bin/python3`, `#!/usr/bin/env python3`), else python3 from the search path.
[[nodiscard]] Result<std::string> interpreter_of(const std::string& script,
                                                 const std::string& python,
                                                 const std::string& search_path);

}  // namespace tributary::cli

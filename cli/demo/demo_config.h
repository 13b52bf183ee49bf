// SPDX-License-Identifier: Apache-2.0
/// @file
/// What `tributary demo` and its hidden worker processes are started with, and the flags for it.
///
/// Model:   The demo starts its workers by to_arguments(); a worker reads the same flags by
///          add_demo_worker_options(), declared in one file so that they cannot drift apart.
/// Errors:  CLI11 refuses a flag out of its range; checked() refuses what depends on two of them.
/// Tests:   tests/cli/demo/demo_config_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace tributary::demo {

/// `tributary demo`.
struct DemoConfig {
  std::string output_directory = ".";  ///< demo.json and demo.svg are written here.
  std::string corpus = "/usr/share/common-licenses";
  std::string program = "/proc/self/exe";  ///< Started for the aggregator and the workers.
  uint32_t workers = 4;
  uint32_t iterations = 80;   ///< Of each run.
  uint32_t batch = 2048;      ///< Examples of one worker in one iteration.
  bool quick = false;         ///< kQuickIterations iterations with smaller batches.
  uint32_t gradients = 1024;  ///< A packet; loopback takes them whole.
  uint32_t window = 256;      ///< Packets in flight; with 1024 gradients the whole model.
  uint64_t seed = 1;          ///< Of parameters, batches, losses and sleeps.
  double loss = 0.01;  ///< Of packets at each worker's port, both ways, in the run with loss.
  double slow_probability = 0.02;  ///< To sleep, at each of three points in an iteration.
  /// The straggler sleeps 0.5 to 2 times that many iterations, as long as they are in the clean
  /// run.
  double slow_factor = 3.0;
  uint32_t mitigation_ms = 0;    ///< The aggregator's straggler timeout; 0: see kTimeoutPart.
  uint32_t run_timeout_s = 120;  ///< A run that takes longer has failed.
};

/// The straggler timeout as a part of a clean iteration. Small, since everyone waits that long for
/// the straggler; but well above the time by which equal workers differ when they share cores.
inline constexpr double kTimeoutPart = 0.25;
inline constexpr uint32_t kTimeoutMsMin = 5;

inline constexpr uint32_t kQuickIterations = 20;
inline constexpr uint32_t kQuickBatch = 256;

/// Iterations that the ledger keeps; more than a straggler lags behind.
inline constexpr uint32_t kLedgerDepth = 20;

/// One worker process.
struct DemoWorkerConfig {
  std::string server = "127.0.0.1:12000";
  std::string corpus = "/usr/share/common-licenses";
  std::string ledger;  ///< File made by SumLedger::create(). Required.
  uint32_t job_id = 1;
  uint32_t rank = 0;
  uint32_t world = 4;
  uint32_t gradients = 1024;
  uint32_t window = 256;
  uint32_t iterations = 80;
  uint32_t batch = 2048;
  uint64_t seed = 1;
  double loss = 0.0;              ///< Of packets at this worker's port, both ways.
  double slow_probability = 0.0;  ///< 0 for a worker that never sleeps.
  uint32_t slow_typical_ms = 250;
  uint32_t deadline_s = 30;  ///< Longest wait for the aggregator or a peer.
};

/// The flags of `tributary demo`: --output, --corpus, --iterations, --batch, --quick, --gradients,
/// --window, --seed, --loss, --slow-probability, --slow-factor, --mitigation-ms, --run-timeout.
void add_demo_options(CLI::App& command, DemoConfig& config);

/// The flags of the hidden command `tributary demo-worker`.
void add_demo_worker_options(CLI::App& command, DemoWorkerConfig& config);

/// The command line, "demo-worker" first, that add_demo_worker_options() reads back.
[[nodiscard]] std::vector<std::string> to_arguments(const DemoWorkerConfig& config);

/// The configuration with --quick applied. Refuses a batch that is not a multiple of 4 and an
/// output directory that does not exist.
[[nodiscard]] Result<DemoConfig> checked(const DemoConfig& config);

}  // namespace tributary::demo

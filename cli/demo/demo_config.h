// SPDX-License-Identifier: Apache-2.0
/// @file
/// The configuration of `tributary demo` and of its hidden worker processes, and their flags.
///
/// Model:   The demo starts its workers with to_arguments(), and a worker reads the flags with
///          add_demo_worker_options(). One file declares both, so they cannot diverge.
/// Errors:  Parsing refuses a flag out of its range; checked() refuses combinations of flags.
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

/// Configuration of `tributary demo`.
struct DemoConfig {
  std::string output_directory = ".";  ///< Receives demo.json and demo.svg.
  std::string corpus = "/usr/share/common-licenses";
  std::string program = "/proc/self/exe";  ///< Program of the aggregator and the workers.
  uint32_t workers = 4;
  uint32_t iterations = 80;   ///< In each run.
  uint32_t batch = 2048;      ///< One worker's examples in one iteration.
  bool quick = false;         ///< kQuickIterations iterations with smaller batches.
  uint32_t gradients = 1024;  ///< In a packet; loopback does not fragment them.
  uint32_t window = 256;      ///< Packets in flight; 256 of 1024 gradients hold the whole model.
  uint64_t seed = 1;          ///< For parameters, batches, losses and sleeps.
  double loss = 0.01;  ///< Packet loss at each worker's port, both ways, in the run with loss.
  double slow_probability = 0.02;  ///< Chance of a sleep at each of three points in an iteration.
  /// The straggler sleeps 0.5 to 2 times this many mean iterations of the clean run.
  double slow_factor = 3.0;
  uint32_t mitigation_ms = 0;    ///< The aggregator's straggler timeout; 0: kTimeoutPart.
  uint32_t run_timeout_s = 120;  ///< A run that takes longer fails.
};

/// The straggler timeout as a fraction of a clean iteration. It is small because all workers wait
/// that long for the straggler. It is well above the time by which equal workers differ on shared
/// cores.
inline constexpr double kTimeoutPart = 0.25;
inline constexpr uint32_t kTimeoutMsMin = 5;

inline constexpr uint32_t kQuickIterations = 20;
inline constexpr uint32_t kQuickBatch = 256;

/// Iterations that the ledger keeps; more than a straggler can lag behind.
inline constexpr uint32_t kLedgerDepth = 20;

/// Configuration of one worker process.
struct DemoWorkerConfig {
  std::string server = "127.0.0.1:12000";
  std::string corpus = "/usr/share/common-licenses";
  std::string ledger;  ///< File from SumLedger::create(). Required.
  uint32_t job_id = 1;
  uint32_t rank = 0;
  uint32_t world = 4;
  uint32_t gradients = 1024;
  uint32_t window = 256;
  uint32_t iterations = 80;
  uint32_t batch = 2048;
  uint64_t seed = 1;
  double loss = 0.0;              ///< Packet loss at this worker's port, both ways.
  double slow_probability = 0.0;  ///< 0 for a worker that never sleeps.
  uint32_t slow_typical_ms = 250;
  uint32_t deadline_s = 30;  ///< Longest wait for the aggregator or a peer.
};

/// Adds the flags of `tributary demo`: --output, --corpus, --iterations, --batch, --quick,
/// --gradients, --window, --seed, --loss, --slow-probability, --slow-factor, --mitigation-ms,
/// --run-timeout.
void add_demo_options(CLI::App& command, DemoConfig& config);

/// Adds the flags of the hidden command `tributary demo-worker`.
void add_demo_worker_options(CLI::App& command, DemoWorkerConfig& config);

/// Returns the command line, "demo-worker" first, that add_demo_worker_options() reads.
[[nodiscard]] std::vector<std::string> to_arguments(const DemoWorkerConfig& config);

/// Returns the configuration with --quick applied. Refuses a batch that is not a multiple of 4 and
/// an output folder that does not exist.
[[nodiscard]] Result<DemoConfig> checked(const DemoConfig& config);

}  // namespace tributary::demo

// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run of the demo: an aggregator and its workers as processes on loopback, from start to end.
///
/// Model:   The aggregator prints "ready". Then the workers start, train and report. Then the run
///          asks the aggregator to end. All workers map one sum ledger, which exists in memory
///          only.
/// Threads: One. It polls the children's pipes.
/// Errors:  A child that ends too early, refuses or is late ends the run. The error names the child
///          and quotes the tail of its standard error. execute_run() returns after all children
///          have ended.
/// Tests:   tests/cli/demo/demo_run_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/demo/demo_config.h"
#include "cli/demo/worker_messages.h"

namespace tributary::demo {

/// The settings in which runs differ.
struct RunPlan {
  std::string key;    ///< Its name in demo.json.
  std::string title;  ///< Its name for people.
  double loss = 0.0;
  uint32_t slow_typical_ms = 0;  ///< The last rank's sleeps take 0.5 to 2 times this; 0: none.
  uint32_t mitigation_ms = 0;    ///< The aggregator's straggler timeout; 0: off.

  [[nodiscard]] bool has_straggler() const { return slow_typical_ms != 0; }
};

/// The result of one run. Vectors have shape [workers].
struct RunResult {
  RunPlan plan;
  std::vector<std::vector<IterationRecord>> records;
  std::vector<WorkerReport> reports;
  std::string aggregator_json;  ///< As `serve --json` wrote it; empty if it wrote nothing.
};

/// The progress of a run.
struct RunProgress {
  const RunPlan& plan;
  uint32_t iterations_done;  ///< Iterations that rank 0 has completed.
  double loss;               ///< Loss in rank 0's last iteration.
  double seconds;            ///< Since the run was started.
};

struct RunHooks {
  std::function<void(const RunProgress&)> progress;  ///< At least once a second.
  std::function<bool()> interrupted;                 ///< True ends the run.
};

/// Runs `plan`.
/// @pre checked() returned `config`.
Result<RunResult> execute_run(const DemoConfig& config, const RunPlan& plan, const RunHooks& hooks);

}  // namespace tributary::demo

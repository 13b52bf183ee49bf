// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run of the demo: an aggregator and its workers as processes on loopback, from start to end.
///
/// Model:   The aggregator says "ready"; then the workers start, train and report; then the
///          aggregator is asked to end. All of them map one sum ledger, which lives in memory only.
/// Threads: One. It polls the children's pipes.
/// Errors:  A child that ends too early, refuses, or is late ends the run with a text that names it
///          and holds the tail of its standard error. All children are gone when execute_run()
///          returns.
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

/// What makes one run different from another.
struct RunPlan {
  std::string key;    ///< Its name in demo.json.
  std::string title;  ///< Its name for people.
  double loss = 0.0;
  uint32_t slow_typical_ms = 0;  ///< The last rank sleeps 0.5 to 2 times that at times; 0: never.
  uint32_t mitigation_ms = 0;    ///< The aggregator's straggler timeout; 0: it waits.

  [[nodiscard]] bool has_straggler() const { return slow_typical_ms != 0; }
};

/// What one run showed. Vectors have shape [workers].
struct RunResult {
  RunPlan plan;
  std::vector<std::vector<IterationRecord>> records;
  std::vector<WorkerReport> reports;
  std::string aggregator_json;  ///< As `serve --json` wrote it; empty if it did not.
};

/// How far a run is.
struct RunProgress {
  const RunPlan& plan;
  uint32_t iterations_done;  ///< By rank 0.
  double loss;               ///< Rank 0's last.
  double seconds;            ///< Since the run was started.
};

struct RunHooks {
  std::function<void(const RunProgress&)> progress;  ///< At least once a second.
  std::function<bool()> interrupted;                 ///< True ends the run.
};

/// Runs `plan` with a configuration that went through checked().
Result<RunResult> execute_run(const DemoConfig& config, const RunPlan& plan, const RunHooks& hooks);

}  // namespace tributary::demo

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs several jobs in one network, and each of them alone in the same network.
///
/// Threads: Runs that do not depend on each other go to several threads; each belongs to one.
/// Errors:  Those of check(). The error of a run that does not end names the job and the
///          worker that hangs.
/// Determinism: Equal scenarios give equal results, on every machine and number of threads.
/// Tests:   tests/lab/shared_run_test.cc
#pragma once

#include <cstdint>

#include "base/result.h"
#include "lab/run_observer.h"
#include "lab/shared_scenario.h"

namespace tributary::lab {

struct SharedRunOptions {
  bool alone = true;  ///< Whether to run each job alone, too, for JobResult::alone.
  /// Runs at the same time; 0: as many as the machine has cores.
  uint32_t threads = 1;
  RunObserver* observer = nullptr;  ///< Observes the run of all jobs together; may be null.
};

/// Runs the jobs together to their end.
[[nodiscard]] Result<SharedResult> run_shared(const SharedScenario& scenario,
                                              const SharedRunOptions& options = {});

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The process behind `tributary demo-worker`: a TrainWorker over a host::Communicator.
///
/// Threads: The communicator has its own; everything else runs in the caller's.
/// Errors:  One line on standard error and exit status 1.
/// Output:  Messages (cli/demo/worker_messages.h) on standard output.
/// Tests:   the whole: tests/cli/demo/demo_run_test.cc with a stand-in program, and `tributary
/// demo`;
///          its parts: tests/cli/demo/train_worker_test.cc
#pragma once

#include "cli/demo/demo_config.h"

namespace tributary::demo {

/// Trains, reports, returns the exit status.
int run_demo_worker(const DemoWorkerConfig& config);

}  // namespace tributary::demo

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The process behind `tributary demo-worker`: a TrainWorker over a host::Communicator.
///
/// Threads: The communicator has its own; everything else runs in the caller's.
/// Errors:  One line on standard error and exit status 1.
/// Output:  Messages (cli/demo/worker_messages.h) on standard output.
/// Tests:   tests/cli/demo/demo_run_test.cc runs a stand-in program, `tributary demo` the whole,
///          and tests/cli/demo/train_worker_test.cc the training.
#pragma once

#include "cli/demo/demo_config.h"

namespace tributary::demo {

/// Trains and reports.
/// @return the exit status.
int run_demo_worker(const DemoWorkerConfig& config);

}  // namespace tributary::demo

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Joins a worker to its job: opens the port that the options describe and starts the protocol.
///
/// Threads: Any. Blocks until all ranks have joined, at most until the deadline. SwitchML without a
///          control point has no join step and does not block.
/// Errors:  One line: the address that cannot be resolved, the port that cannot be opened, or the
///          ranks that have not joined.
/// Tests:   tests/system/worker_test.cc, tests/system/switchml_worker_test.cc
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "cli/worker/worker_options.h"
#include "host/communicator.h"

namespace tributary::cli {

/// Returns this rank's own seed, the same in every run with the same options.
[[nodiscard]] uint64_t rank_seed(const WorkerOptions& options);

[[nodiscard]] Result<std::unique_ptr<host::Communicator>> join_job(const WorkerOptions& options);

}  // namespace tributary::cli

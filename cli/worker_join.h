// SPDX-License-Identifier: Apache-2.0
/// @file
/// How a worker comes to its job: a port, as its options have it, and the protocol over it.
///
/// Threads: Any; blocks until all ranks have joined, at most until the deadline. SwitchML without a
///          control point has nothing to join: there it does not block.
/// Errors:  One line: the address that cannot be resolved, the port that cannot be opened, who has
///          not come.
/// Tests:   tests/system/worker_test.cc, switchml_worker_test.cc
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "cli/worker_options.h"
#include "host/communicator.h"

namespace tributary::cli {

/// A seed of this rank's own, the same for the same run.
[[nodiscard]] uint64_t rank_seed(const WorkerOptions& options);

[[nodiscard]] Result<std::unique_ptr<host::Communicator>> join_job(const WorkerOptions& options);

}  // namespace tributary::cli

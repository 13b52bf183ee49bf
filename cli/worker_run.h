// SPDX-License-Identifier: Apache-2.0
/// @file
/// The run of `tributary worker`: joins the job, reduces tensors, checks and measures.
///
/// Model:   Each iteration waits at its delay points, fills a tensor, all-reduces it and checks the
///          sum. With `inflight` above 1, that many tensors are on their way before the oldest is
///          waited for. All three delay points lie before the all-reduce, where a training step
///          computes: a sleep behind it would delay nobody.
/// Threads: Called once, by the main thread.
/// Errors:  In the result's status and error; nothing is printed.
#pragma once

#include "cli/worker_interrupt.h"
#include "cli/worker_options.h"
#include "cli/worker_result.h"

namespace tributary::cli {

/// Blocks until all is done, something fails, or `interrupt` is requested. An interrupt while the
/// job is being joined, which can take until the deadline, writes the JSON and ends the process.
[[nodiscard]] WorkerResult run_worker(const WorkerOptions& options, WorkerInterrupt& interrupt);

}  // namespace tributary::cli

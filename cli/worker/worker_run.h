// SPDX-License-Identifier: Apache-2.0
/// @file
/// The run of `tributary worker`: joins the job, reduces tensors, checks and measures.
///
/// Model:   Each iteration sleeps at its delay points, fills a tensor, all-reduces it and checks
///          the sum. With `inflight` above 1, that many tensors are in flight before the oldest is
///          awaited. All three delay points come before the all-reduce, where a training step
///          computes. A sleep after it would delay no other rank.
/// Threads: Called once, by the main thread.
/// Errors:  In the result's status and error; prints nothing.
#pragma once

#include "cli/worker/worker_interrupt.h"
#include "cli/worker/worker_options.h"
#include "cli/worker/worker_result.h"

namespace tributary::cli {

/// Blocks until all iterations are done, something fails, or `interrupt` is requested. Joining can
/// take until the deadline; an interrupt during it writes the JSON and ends the process.
[[nodiscard]] WorkerResult run_worker(const WorkerOptions& options, WorkerInterrupt& interrupt);

}  // namespace tributary::cli

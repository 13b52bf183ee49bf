// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages from a worker process to the demo: one JSON object per line on its standard output.
///
/// Errors:  A line that is not a message is refused with its text; nothing throws.
/// Threads: None; pure functions.
/// Tests:   tests/cli/demo/worker_messages_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "cli/demo/sum_ledger.h"
#include "cli/demo/train_worker.h"
#include "host/communicator.h"

namespace tributary::demo {

/// All ranks have joined; training begins.
struct WorkerJoined {
  uint32_t rank = 0;
};

/// The last message of a worker that has finished.
struct WorkerReport {
  uint32_t rank = 0;
  uint64_t parameter_checksum = 0;
  double validation_loss = 0.0;  ///< Nats per byte.
  uint32_t late_iterations = 0;  ///< Iterations in which all of its gradients were late.
  SumCheck sums;
  host::CommunicatorCounters counters;
};

using WorkerMessage = std::variant<WorkerJoined, IterationRecord, WorkerReport>;

/// Returns the message as one line without its newline.
[[nodiscard]] std::string encode(const WorkerMessage& message);
/// The inverse of encode().
[[nodiscard]] Result<WorkerMessage> decode(std::string_view line);

}  // namespace tributary::demo

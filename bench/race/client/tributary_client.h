// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tributary's own worker of a race, through the client library as a user would have it, and the
/// parameter server's worker: the two that need nothing but this project.
///
/// Threads: The calling one; the communicator has one more.
/// Errors:  Values.
/// Tests:   tests/bench/race/race_test.cc
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "bench/race/client/client.h"
#include "host/communicator.h"

namespace tributary::race {

/// ClientConfig::algorithm of the two.
inline constexpr const char* kTributaryWorker = "tributary";
inline constexpr const char* kPsWorker = "ps";

/// Runs the worker that config.algorithm names. config.server is the aggregator's address, or the
/// parameter servers'.
Result<void> run_worker(const ClientConfig& config);

/// Degraded blocks as the check of a lap wants them.
[[nodiscard]] std::vector<PartialSum> partial_sums(std::span<const host::DegradedRange> degraded,
                                                   uint32_t workers);

}  // namespace tributary::race

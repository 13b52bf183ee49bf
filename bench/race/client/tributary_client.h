// SPDX-License-Identifier: Apache-2.0
/// @file
/// Two workers of a race that need only this project: Tributary's, which uses the client library as
/// a user would, and the parameter server's.
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

/// Values of ClientConfig::algorithm for the two.
inline constexpr const char* kTributaryWorker = "tributary";
inline constexpr const char* kPsWorker = "ps";

/// Runs the worker that config.algorithm names. config.server holds the address of the aggregator
/// or of the parameter servers.
Result<void> run_worker(const ClientConfig& config);

/// Converts degraded blocks to the form that a lap's check needs.
[[nodiscard]] std::vector<PartialSum> partial_sums(std::span<const host::DegradedRange> degraded,
                                                   uint32_t workers);

}  // namespace tributary::race

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks that packets and trains of packets fit into the queues of a topology file's cables. A
/// scenario's own links are checked with its keys (lab/train_limits.h).
///
/// Errors:  Name the cable's place in the file.
/// Threads: Pure functions.
/// Tests:   tests/lab/cluster/cable_limits_test.cc
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/backends/backend.h"
#include "lab/scenario.h"
#include "net/topology.h"

namespace tributary::lab {

/// Refuses a cable whose queue is shorter than a packet or a train, and one whose marking threshold
/// is below the smallest windows of the workers that share it.
/// @param topology As planned, with the queues of the hosts' NICs.
/// @param workers  The nodes of the job's workers.
[[nodiscard]] Result<void> check_cable_limits(const net::Topology& topology,
                                              const Scenario& scenario, const BackendKind& backend,
                                              const std::vector<std::string>& workers);

}  // namespace tributary::lab

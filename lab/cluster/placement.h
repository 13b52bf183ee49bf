// SPDX-License-Identifier: Apache-2.0
/// @file
/// Places parameter servers in a topology, beside the workers and on hosts of their own, and weighs
/// them.
///
/// Model:   A host of its own is cabled as a worker's is, but never by a slow cable. A worker and a
///          server on one host share its cable, but not its cores; packets between the two stay
///          inside and pass at kLoopbackBitsPerS. In the virtual network a shared host is a worker
///          and a server at a switch called nic-0 …, whose uplink is the host's cable.
/// Source:  SwitchML paper §6.1 (as many servers as workers, both placements), BytePS paper §2.3
///          and §4.1 (both together, by weight).
/// Threads: None; works on plain data.
/// Tests:   tests/lab/peers/peers_run_test.cc, tests/lab/peers/sharded_run_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/cluster/plan.h"

namespace tributary::lab {

/// Inside a host. Source: BytePS paper §4.2.1 (CPU memory and QPI carry more than 300 Gbit/s).
inline constexpr uint64_t kLoopbackBitsPerS = 300'000'000'000;
inline constexpr Duration kLoopbackPropagation = nanoseconds(100);  ///< Assumed: a cache miss.

/// Returns the name of a job's server.
[[nodiscard]] std::string server_name(const JobPlace& place, uint32_t number);

/// Adds the back end's servers: those beside workers, in order of ranks, and then those on hosts of
/// their own. A machine with weight 0 gets none. The workers' cables must be final. Updates
/// plan.host_nodes and plan.nic_bits_per_s.
/// @return the servers' weights, in the order of the servers. Empty if the back end has none.
std::vector<uint32_t> place_servers(ClusterPlan& plan, const Scenario& scenario,
                                    const BackendKind& backend);

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Places parameter servers in a topology: on hosts of their own or beside the workers.
///
/// Model:   Dedicated: one server host for each worker, cabled as the worker is. Colocated: a
///          worker and a server share a host and its one cable; packets between the two stay
///          inside the host and pass at kLoopbackBitsPerS. In the virtual network a shared host
///          is a worker and a server at a switch called nic-0 …, whose uplink is the host's cable.
/// Source:  SwitchML paper §6.1 (as many servers as workers, both placements), BytePS paper §2.3.
/// Threads: None; works on plain data.
/// Tests:   tests/lab/peers/peers_run_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/cluster/plan.h"

namespace tributary::lab {

/// Inside a host. Source: BytePS paper §4.2.1 (CPU memory and QPI carry more than 300 Gbit/s).
inline constexpr uint64_t kLoopbackBitsPerS = 300'000'000'000;
inline constexpr Duration kLoopbackPropagation = nanoseconds(100);  ///< Assumed: a cache miss.

/// Adds one server for each worker, in order of ranks. The workers' cables must be final. Updates
/// plan.host_nodes and plan.nic_bits_per_s.
void place_servers(ClusterPlan& plan, const Scenario& scenario, Placement placement);

}  // namespace tributary::lab

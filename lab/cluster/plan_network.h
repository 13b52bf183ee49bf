// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plans the network of a run: the topology that a scenario names, with the rates of slow cables.
///
/// Model:   A scenario's workers are the hosts of its network. Jobs add servers and other traffic
///          later (lab/cluster/plan.h).
/// Errors:  Refuses topology files that cannot be read, or that do not fit the scenario.
/// Threads: None; works on plain data.
/// Tests:   tests/lab/cluster/plan_test.cc
#pragma once

#include <string>
#include <vector>

#include "lab/backends/backend.h"
#include "lab/scenario.h"
#include "net/topology.h"

namespace tributary::lab {

/// Kinds of nodes in a cluster's topology beside plain switches.
inline constexpr char kWorkerKind[] = "worker";
inline constexpr char kAggregatorKind[] = "aggregator";
inline constexpr char kTopKind[] = "top-aggregator";
inline constexpr char kBackgroundKind[] = "background";
inline constexpr char kServerKind[] = "server";

/// Returns the nodes of a kind, in the topology's order. Valid until its nodes change.
[[nodiscard]] std::vector<const net::NodeSpec*> nodes_of(const net::Topology& topology,
                                                         const char* kind);

/// Returns the node at the other end of a worker's cable; empty without a cable.
[[nodiscard]] std::string neighbour_of(const net::Topology& topology, const std::string& worker);

/// @param backend Decides whether the switches add, and which nodes a topology file may have.
/// @param tree    Leaves below one top, for the topologies chassis and two-level; else they are a
///                star.
[[nodiscard]] Result<net::Topology> plan_network(const Scenario& scenario,
                                                 const BackendKind& backend, bool tree);

}  // namespace tributary::lab

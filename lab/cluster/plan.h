// SPDX-License-Identifier: Apache-2.0
/// @file
/// From a scenario to what has to be built: the topology, and the settings of each aggregator and
/// worker.
///
/// Model:   A tree of aggregators is configured as docs/aggregation-protocol.md §7 says: leaves add
///          their workers' gradients, the top adds the leaves' sums. The top's straggler timeout is
///          kTopTimeoutFactor times the leaves', so that a leaf has given its straggler up before
///          the top gives up the leaf (a leaf takes up to two timeouts).
///          A back end that cannot be a tree has all workers at one aggregator, as the paper's
///          SwitchML has (Trio paper §6.1).
///          In a star and a leaf-spine network results go to a multicast group, in a tree from each
///          leaf to its workers.
/// Errors:  Assumes a scenario that passed check(). Refuses topology files that cannot be read, or
///          whose workers and aggregators do not fit the scenario.
/// Tests:   tests/lab/cluster/plan_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lab/backends/aggregator_node.h"
#include "lab/backends/backend.h"
#include "lab/cluster/worker_node.h"
#include "lab/scenario.h"
#include "net/topology.h"

namespace tributary::lab {

/// Kinds of nodes in a cluster's topology beside plain switches.
inline constexpr char kWorkerKind[] = "worker";
inline constexpr char kAggregatorKind[] = "aggregator";
inline constexpr char kTopKind[] = "top-aggregator";
inline constexpr char kBackgroundKind[] = "background";
inline constexpr char kServerKind[] = "server";

/// A leaf's answer may take two of its timeouts and the way up; 3 leaves room for that. Assumed.
inline constexpr int64_t kTopTimeoutFactor = 3;

/// The switch's output queue toward a host is the scenario's; a host's own is its NIC's ring, which
/// the host never overfills.
inline constexpr uint64_t kHostQueueBytesMax = uint64_t{1} << 40;

struct ClusterPlan {
  net::Topology topology;
  /// Leaves by number, then the top if there is one; or servers by number; or none.
  std::vector<AggregatorSpec> aggregators;
  std::vector<uint64_t> nic_bits_per_s;   ///< By rank: what a host sends with.
  std::vector<std::string> host_nodes;    ///< By rank: the node at whose port 0 the cable is.
  std::vector<WorkerNodeConfig> workers;  ///< By rank.
  std::vector<uint64_t> worker_seeds;     ///< Likewise.
  uint64_t network_seed = 0;
};

/// @param background_to As StragglerPattern::background_to() says.
[[nodiscard]] Result<ClusterPlan> plan_cluster(const Scenario& scenario, const BackendKind& backend,
                                               std::optional<uint32_t> background_to);

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plans a run: from a scenario to the topology and the settings of each aggregator and worker.
///
/// Model:   Trees follow docs/aggregation-protocol.md §7: leaves add their workers' gradients, the
///          top adds the leaves' sums. The top waits kTopTimeoutFactor times as long as a leaf,
///          which takes up to two timeouts, so a leaf completes without its straggler first.
///          check() refuses a tree for a back end that cannot be one. Results go to a multicast
///          group; in a tree, from each leaf to its workers.
/// Errors:  Assumes a scenario that passed check(). Refuses topology files that cannot be read, or
///          that do not fit the scenario.
/// Tests:   tests/lab/cluster/plan_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/prng.h"
#include "lab/backends/aggregator_node.h"
#include "lab/backends/backend.h"
#include "lab/cluster/plan_network.h"
#include "lab/cluster/worker_node.h"
#include "lab/scenario.h"
#include "net/topology.h"

namespace tributary::lab {

/// A leaf's answer may take two of its timeouts and the way up. Assumed: 3 covers both.
inline constexpr int64_t kTopTimeoutFactor = 3;

/// A host's output queue stands for its NIC's ring, which the host never overfills. The scenario
/// sets the switch's queue toward a host.
inline constexpr uint64_t kHostQueueBytesMax = uint64_t{1} << 40;

/// A job's place in a network: its hosts, and the names and numbers that it takes there.
struct JobPlace {
  std::vector<std::string> workers;  ///< By rank: the node of kind kWorkerKind.
  uint8_t job_id = 1;                ///< Each of the job's channels takes the next one.
  std::string prefix = {};           ///< Begins the names of the nodes that the job adds.
};

/// The plan of one job, with the network that it runs in.
struct ClusterPlan {
  net::Topology topology;
  JobPlace place;
  /// Leaves by number, then the top if any; or servers by number; or none.
  std::vector<AggregatorSpec> aggregators;
  std::vector<uint64_t> nic_bits_per_s;         ///< By rank: a host's sending rate.
  std::vector<std::string> host_nodes;          ///< By rank: the node with the cable at port 0.
  std::vector<WorkerNodeConfig> workers;        ///< By rank.
  std::vector<uint64_t> worker_seeds;           ///< By rank.
  std::vector<uint64_t> background_bits_per_s;  ///< By source of background traffic.
  uint64_t slowest_bits_per_s = 0;              ///< Of all cables, in either direction.
  uint64_t network_seed = 0;
};

/// Adds a job to plan.topology and plans its aggregators and workers. plan.place must be set.
/// @param seeds         Source of the seeds of the network and the workers.
/// @param background_to Ranks, from StragglerPattern::background_to().
[[nodiscard]] Result<void> plan_job(ClusterPlan& plan, const Scenario& scenario,
                                    const BackendKind& backend, Prng& seeds,
                                    const std::vector<uint32_t>& background_to);

/// Returns the name of a job's source of background traffic.
[[nodiscard]] std::string background_name(const JobPlace& place, size_t number);

/// Reads the files that a scenario names, so that their faults are known before the run: the trace
/// of its stragglers and its topology.
[[nodiscard]] Result<void> check_files(const Scenario& scenario);

/// Plans one job that has the network to itself.
/// @param background_to Ranks, from StragglerPattern::background_to().
[[nodiscard]] Result<ClusterPlan> plan_cluster(const Scenario& scenario, const BackendKind& backend,
                                               const std::vector<uint32_t>& background_to);

}  // namespace tributary::lab

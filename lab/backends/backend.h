// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kinds of aggregators that a scenario can choose. A new one is a value of Backend and a row
/// in backend.cc.
///
/// Tests: tests/lab/run_test.cc runs every row
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/tensor_protocol.h"
#include "host/worker_config.h"
#include "lab/backends/aggregator_node.h"
#include "lab/scenario.h"

namespace tributary::lab {

/// The inputs from which a back end makes a worker's protocol.
struct WorkerSetup {
  uint32_t rank = 0;
  const host::CommunicatorConfig& communicator;  ///< Configuration of this worker.
  std::span<const AggregatorSpec> aggregators;   ///< With their addresses.
  std::span<const Endpoint> workers;             ///< Addresses by rank.
};

/// The place of the machines that add (lab/cluster/placement.h).
enum class Placement : uint8_t {
  kSwitch,     ///< In the switch.
  kDedicated,  ///< Servers on hosts of their own, one for each worker.
  kColocated,  ///< Servers on the workers' hosts.
  kSharded,    ///< Servers where the scenario's AggregatorsSettings put them.
  kWorkers,    ///< In the workers themselves.
};

struct BackendKind {
  Backend id;
  Choice choice;
  Placement placement = Placement::kSwitch;
  bool mitigates = false;     ///< Completes blocks without stragglers.
  bool takes_quorum = false;  ///< Completes blocks after mitigation.quorum contributions.
  bool straggles = true;      ///< False: the scenario's straggler pattern does not apply.
  bool hierarchical = false;  ///< Can be a tree; else all workers are at one node.
  bool elides = true;         ///< Accepts datagrams without payload.
  bool trains = true;         ///< Accepts datagrams that represent several.
  bool asynchronous = false;  ///< Keeps the parameters; answers each worker alone.
  /// Null if it does not speak SwitchML.
  const SwitchmlDesign* switchml = nullptr;
  bool own_ports = false;             ///< Every worker needs a port of its own.
  bool shares = false;                ///< Its jobs can run beside others in one network.
  uint16_t port = wire::kTrioMlPort;  ///< The node's UDP port.
  /// Makes the node. Null if only the workers add.
  Result<std::unique_ptr<AggregatorNode>> (*make)(net::Network& network,
                                                  const AggregatorSpec& spec) = nullptr;
  /// Returns the protocol of a worker. Null: Trio-ML's protocol.
  host::ProtocolFactory (*protocol)(const Scenario& scenario, const WorkerSetup& worker) = nullptr;
  /// Refuses scenarios beyond the limits above. May be null.
  std::optional<Refusal> (*check)(const Scenario& scenario, const BackendKind& kind) = nullptr;

  /// Tells whether the aggregator serves a session for each priority of buckets.
  [[nodiscard]] bool prioritises() const {
    return make != nullptr && switchml == nullptr && !asynchronous;
  }
  /// Returns the elements of a packet.
  [[nodiscard]] uint32_t elements(const Scenario& scenario) const {
    return switchml != nullptr ? switchml->elements : scenario.gradients;
  }
};

/// Returns a row for each Backend, in their order.
[[nodiscard]] const std::vector<BackendKind>& backend_kinds();
[[nodiscard]] const BackendKind& backend_kind(Backend backend);

/// Returns whether the scenario's blocks complete without late workers.
[[nodiscard]] bool leaves_out_late(const Scenario& scenario, const BackendKind& backend);

/// Returns the settings of a job at an aggregator that serves all workers. Window and blocks count
/// simulated packets.
[[nodiscard]] trio_ml::JobConfig job_of(const Scenario& scenario, const BackendKind& backend);

/// Returns whether the scenario asks for a generated tree of aggregators and the back end can be
/// one.
[[nodiscard]] bool is_tree(const Scenario& scenario, const BackendKind& backend);

/// Returns the least number of bytes that a worker's host sends for a tensor, as a multiple of the
/// tensor's size. A switch or a server on its own host needs the tensor once; a ring and colocated
/// servers need 2 (n - 1) / n; colocated servers beside spare ones, equation 6. Source: SwitchML
/// paper §3, BytePS paper §2.2 and §4.1.1.
[[nodiscard]] double least_traffic(const Scenario& scenario, const BackendKind& backend);

}  // namespace tributary::lab

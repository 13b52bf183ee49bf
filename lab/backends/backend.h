// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kinds of aggregators that a scenario can choose from. A new one is one row in backend.cc.
///
/// Tests: tests/lab/run_test.cc runs every row
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/tensor_protocol.h"
#include "lab/backends/aggregator_node.h"
#include "lab/scenario.h"

namespace tributary::lab {

struct ClusterPlan;

/// Where those who add stand (lab/backends/placement.h).
enum class Placement : uint8_t {
  kSwitch,     ///< In the switch.
  kDedicated,  ///< Servers on hosts of their own, one for each worker.
  kColocated,  ///< Servers beside the workers, on their hosts.
  kWorkers,    ///< Nobody but the workers.
};

struct BackendKind {
  Choice choice;
  Placement placement = Placement::kSwitch;
  bool mitigates = false;     ///< Gives stragglers up.
  bool straggles = true;      ///< False: the scenario's straggler pattern does not apply.
  bool hierarchical = false;  ///< Can be a tree; else all workers are at one of it.
  bool elides = true;         ///< Takes datagrams without their payload.
  bool trains = true;         ///< Takes datagrams that stand for several.
  /// Null if it does not speak SwitchML.
  const SwitchmlDesign* switchml = nullptr;
  bool own_ports = false;             ///< Every worker has to be at a port of its own.
  uint16_t port = wire::kTrioMlPort;  ///< UDP port it is addressed at.
  /// Null where nobody but the workers adds.
  Result<std::unique_ptr<AggregatorNode>> (*make)(net::Network& network,
                                                  const AggregatorSpec& spec) = nullptr;
  /// What this worker speaks, for a plan in which all addresses are set. Null: Trio-ML's protocol.
  host::ProtocolFactory (*protocol)(const Scenario& scenario, const ClusterPlan& plan,
                                    uint32_t rank) = nullptr;
  /// Refuses what this back end cannot do beside what is said above. May be null.
  Result<void> (*check)(const Scenario& scenario, const BackendKind& kind) = nullptr;

  /// Elements of its packets.
  [[nodiscard]] uint32_t elements(const Scenario& scenario) const {
    return switchml != nullptr ? switchml->elements : scenario.gradients;
  }
};

[[nodiscard]] const std::vector<BackendKind>& backend_kinds();
/// Null if there is none of that name.
[[nodiscard]] const BackendKind* find_backend_kind(const std::string& name);

}  // namespace tributary::lab

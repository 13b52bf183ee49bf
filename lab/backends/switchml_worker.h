// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's workers in the lab, whatever switch they talk to: the design of a back end, how many
/// slots it takes, and the protocol of a rank.
///
/// Model:   The pool is what the scenario says; else, with the preset "paper", what keeps the link
///          full (SwitchML paper, Appendix C: bandwidth x delay over the size of a packet, rounded
///          up to a power of two). The delay counts from sending a packet to sending the next one
///          of its slot in an idle network: both ways, the switch, a round of the host (bursts of
///          packets, as DPDK's, which is why the paper rounds up), and the rest of a train.
/// Threads: Pure functions.
/// Errors:  check_switchml() names the key, its value, and what is allowed.
/// Tests:   tests/lab/backends/switchml_worker_test.cc, tofino_node_test.cc
#pragma once

#include <optional>
#include <string>

#include "host/switchml_config.h"
#include "host/tensor_protocol.h"
#include "lab/scenario.h"

namespace tributary::lab {

struct WorkerSetup;

/// What a back end's SwitchML is.
struct SwitchmlDesign {
  uint32_t elements = host::kSwitchmlSmallElements;  ///< Of a packet.
  /// Gives up slots whose workers do not come, after MitigationSettings::timeout.
  bool times_out = false;
  Duration latency = {};   ///< In an idle switch, of the packet that completes a slot.
  uint32_t slots_max = 0;  ///< That the switch has of each set.
};

/// Slots of each set that a worker uses: packets in flight.
[[nodiscard]] uint32_t switchml_pool(const Scenario& scenario, const SwitchmlDesign& design);

/// The settings of a rank; counts in simulated packets.
[[nodiscard]] host::SwitchmlConfig switchml_config(const Scenario& scenario,
                                                   const SwitchmlDesign& design);

/// Returns the protocol that a worker speaks with the only aggregator.
[[nodiscard]] host::ProtocolFactory switchml_protocol(const Scenario& scenario,
                                                      const WorkerSetup& worker);

/// Refuses links that reorder packets, more workers than the bitmap has bits, pools beyond the
/// switch's slots, and pools that the train does not divide.
[[nodiscard]] std::optional<Refusal> check_switchml(const Scenario& scenario,
                                                    const SwitchmlDesign& design);

/// Returns "key=value is not allowed; allowed with backend=…: …".
[[nodiscard]] Refusal refused_by_backend(const Scenario& scenario, const char* key,
                                         const std::string& value, const std::string& allowed);

}  // namespace tributary::lab

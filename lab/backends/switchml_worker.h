// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's workers with any switch: a back end's design, its number of slots, and the protocol
/// of a rank.
///
/// Model:   The scenario gives the pool. Without one, the preset "paper" takes the slots that keep
///          the link full: bandwidth x delay over the size of a packet, rounded up to a power of
///          two (SwitchML paper, Appendix C). The delay is that from a packet to the next one of
///          its slot in an idle network: both ways, the switch, a round of the host (a DPDK burst,
///          for which the paper rounds up), and the rest of a train.
/// Threads: Pure functions.
/// Errors:  check_switchml() names the key, its value and the allowed values.
/// Tests:   tests/lab/backends/switchml_worker_test.cc, tests/lab/backends/tofino_node_test.cc
#pragma once

#include <optional>
#include <string>

#include "host/switchml/switchml_config.h"
#include "host/tensor_protocol.h"
#include "lab/scenario.h"

namespace tributary::lab {

struct BackendKind;
struct WorkerSetup;

/// A back end's variant of SwitchML.
struct SwitchmlDesign {
  uint32_t elements = host::kSwitchmlSmallElements;  ///< Elements in each packet.
  /// Whether the switch closes slots that lack workers after MitigationSettings::timeout.
  bool times_out = false;
  Duration latency = {};   ///< In an idle switch, of the packet that completes a slot.
  uint32_t slots_max = 0;  ///< The switch's slots of each set.
};

/// Returns the slots of each set that a worker uses: its packets in flight.
[[nodiscard]] uint32_t switchml_pool(const Scenario& scenario, const SwitchmlDesign& design);

/// Returns the settings of a rank. Counts are of simulated packets.
[[nodiscard]] host::SwitchmlConfig switchml_config(const Scenario& scenario,
                                                   const SwitchmlDesign& design);

/// Returns the protocol that a worker speaks with the only aggregator.
[[nodiscard]] host::ProtocolFactory switchml_protocol(const Scenario& scenario,
                                                      const WorkerSetup& worker);

/// Refuses links that reorder packets, more workers than the bitmap has bits, pools beyond the
/// switch's slots, and pools that the train does not divide.
[[nodiscard]] std::optional<Refusal> check_switchml(const Scenario& scenario,
                                                    const BackendKind& backend);

/// Returns "key=value is not allowed; allowed with backend=…: …".
[[nodiscard]] Refusal refused_by_backend(const BackendKind& backend, const char* key,
                                         const std::string& value, const std::string& allowed);

}  // namespace tributary::lab

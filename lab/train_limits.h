// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks that packets and trains of packets fit into the queues of a scenario's links.
///
/// Model:   - A queue that is shorter than a train drops every train that finds the link busy.
///          - A worker under congestion control keeps at least one train in flight. If these trains
///            together exceed the depth at which a link marks, the marks never end.
/// Units:   Bytes on the wire, with net::kWireOverheadBytes for each packet.
/// Threads: Pure functions.
/// Tests:   tests/lab/train_limits_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lab/backends/backend.h"
#include "lab/scenario.h"
#include "net/link_config.h"

namespace tributary::lab {

/// Returns the bytes on the wire of a full packet of the back end's workers.
[[nodiscard]] uint64_t wire_bytes_of_packet(const Scenario& scenario, const BackendKind& backend);

/// One link, and the workers that use it.
struct SharedLink {
  std::string prefix;  ///< Of its keys in messages: "link.".
  const net::LinkConfig* config;
  uint32_t workers;  ///< Most workers whose packets meet in its queue.
};
/// Refuse what check_queues() and check_marks() refuse, for one link.
[[nodiscard]] std::optional<Refusal> check_queue(const Scenario& scenario,
                                                 const BackendKind& backend,
                                                 const SharedLink& link);
[[nodiscard]] std::optional<Refusal> check_mark(const Scenario& scenario,
                                                const BackendKind& backend, const SharedLink& link);

/// Refuses a queue that is shorter than a packet, and a train that is longer than a queue. Checks
/// the links that the scenario's keys set. lab/cluster/cable_limits.h checks a topology file's.
[[nodiscard]] std::optional<Refusal> check_queues(const Scenario& scenario,
                                                  const BackendKind& backend);

/// Refuses a train with which the smallest windows of all workers that share a link exceed its
/// marking threshold. Single packets are always allowed: real workers have the same limit.
[[nodiscard]] std::optional<Refusal> check_marks(const Scenario& scenario,
                                                 const BackendKind& backend);

}  // namespace tributary::lab

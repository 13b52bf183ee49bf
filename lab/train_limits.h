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

#include "lab/backends/backend.h"
#include "lab/scenario.h"

namespace tributary::lab {

/// Returns the bytes on the wire of a full packet of the back end's workers.
[[nodiscard]] uint64_t wire_bytes_of_packet(const Scenario& scenario, const BackendKind& backend);

/// Refuses a queue that is shorter than a packet, and a train that is longer than a queue. Checks
/// the links that the scenario's keys set; a topology file has queues of its own.
[[nodiscard]] std::optional<Refusal> check_queues(const Scenario& scenario,
                                                  const BackendKind& backend);

/// Refuses a train with which the smallest windows of all workers that share a link exceed its
/// marking threshold. Single packets are always allowed: real workers have the same limit.
[[nodiscard]] std::optional<Refusal> check_marks(const Scenario& scenario,
                                                 const BackendKind& backend);

}  // namespace tributary::lab

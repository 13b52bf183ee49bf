// SPDX-License-Identifier: Apache-2.0
/// @file
/// Asks a network card to bring all packets of a block to one queue (rte_flow), where it can.
///
/// Model:   The rules are those of steering_rules.h. Each is validated before the first is made: a
///          card that can do some of them does none, and the cores hand packets over among
///          themselves.
/// Errors:  None: Steering::kNone is an answer.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc (refusal); that a card obeys is unmeasured, none here
///          has rte_flow.
#pragma once

#include <cstdint>

#include "io/dpdk/steering_rules.h"

namespace tributary::io {

/// @param queues A power of two, more than 1. @return how the card now steers.
[[nodiscard]] Steering steer_blocks(uint16_t port_id, uint16_t udp_port, bool ipv4,
                                    uint32_t queues);

}  // namespace tributary::io

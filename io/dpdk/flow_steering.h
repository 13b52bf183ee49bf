// SPDX-License-Identifier: Apache-2.0
/// @file
/// Asks a network card to steer all packets of a block to one queue (rte_flow), if it can.
///
/// Model:   The rules are those of steering_rules.h. All are validated before the first is created.
///          If the card refuses any rule, it gets none, and the cores hand packets over.
/// Errors:  None: the answer may be BlockSteering::kNone.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc (refusal). No test shows that a card obeys: no card
///          here has rte_flow.
#pragma once

#include <cstdint>

#include "io/dpdk/steering_rules.h"

namespace tributary::io {

/// Creates the rules.
/// @param queues A power of two greater than 1.
/// @return how the card steers from then on.
[[nodiscard]] BlockSteering steer_blocks(uint16_t port_id, uint16_t udp_port, bool ipv4,
                                         uint32_t queues);

}  // namespace tributary::io

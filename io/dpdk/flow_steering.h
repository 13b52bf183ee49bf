// SPDX-License-Identifier: Apache-2.0
/// @file
/// Asks a network card to bring all packets of a block to one queue (rte_flow), where it can.
///
/// Model:   The engine's owner of a block is a few bits of the payload (SteeringField). One rule
/// for
///          each value of these bits sends UDP to our port with that value to its queue. Every rule
///          is validated before the first is made: a card that can do some of them does none, and
///          the cores hand packets over among themselves.
/// Errors:  None: false is an answer.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc (refusal); that a card obeys is unmeasured, none here
///          has rte_flow.
#pragma once

#include <cstdint>

namespace tributary::io {

/// @param queues A power of two, more than 1. @return whether the card now steers.
[[nodiscard]] bool steer_blocks(uint16_t port_id, uint16_t udp_port, bool ipv4, uint32_t queues);

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a SwitchML server says of itself to a worker: the addresses to put into its packets.
///
/// Errors: One line when this machine has no way to the worker.
/// Tests:  tests/server/switchml/switchml_appliance_test.cc
#pragma once

#include <cstdint>

#include "base/endpoint.h"
#include "base/result.h"

namespace tributary::server {

struct SwitchAddress {
  uint64_t mac = 0;   ///< Low 48 bits; 0 on the loopback interface.
  uint32_t ipv4 = 0;  ///< Host order.
};

/// The address of `listen`, or, if it is that of no interface in particular, the one from which
/// this machine sends to `worker`; and the MAC of its interface. Both IPv4.
[[nodiscard]] Result<SwitchAddress> switch_address(const Endpoint& listen, const Endpoint& worker);

}  // namespace tributary::server

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The addresses that a SwitchML server tells a worker to put into its packets.
///
/// Errors:  One line if this machine has no route to the worker.
/// Tests:   tests/server/switchml/switchml_appliance_test.cc
#pragma once

#include <cstdint>

#include "base/endpoint.h"
#include "base/result.h"

namespace tributary::server {

struct SwitchAddress {
  uint64_t mac = 0;   ///< Low 48 bits; 0 on the loopback interface.
  uint32_t ipv4 = 0;  ///< Host order.
};

/// Returns the address of `listen` and the MAC of its interface. If `listen` is the wildcard
/// address, uses the address from which this machine sends to `worker`. Both are IPv4.
[[nodiscard]] Result<SwitchAddress> switch_address(const Endpoint& listen, const Endpoint& worker);

}  // namespace tributary::server

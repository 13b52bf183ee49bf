// SPDX-License-Identifier: Apache-2.0
/// @file
/// A number that tells an aggregator from others with the same secret, also after its restart.
///
/// Source:  /etc/machine-id (man machine-id), the host's name, the address that it listens on.
/// Errors:  A machine without machine-id has its name alone. Two containers with the same name, id
///          and address are not told apart.
/// Tests:   tests/server/aggregator_id_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/endpoint.h"

namespace tributary::server {

/// Returns the number of an aggregator on this machine.
[[nodiscard]] uint64_t aggregator_id(const Endpoint& listen);

/// Returns the number of an aggregator on the machine with this id and name.
[[nodiscard]] uint64_t aggregator_id(std::string_view machine_id, std::string_view host_name,
                                     const Endpoint& listen);

}  // namespace tributary::server

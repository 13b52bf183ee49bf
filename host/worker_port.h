// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens a worker's port to its aggregator: shared memory to one on the same machine, otherwise a
/// UDP socket.
///
/// Threads: Any.
/// Errors:  One line with the aggregator's address and the reason.
/// Tests:   tests/host/worker_port_test.cc
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/endpoint.h"
#include "base/result.h"
#include "host/worker_config.h"

namespace tributary::engine {
class Port;
}

namespace tributary::host {

/// Opens the port. With LocalUse::kAuto, a UDP socket serves whenever shared memory cannot: the
/// address is another machine's, or no server answers there, or it has no place left.
[[nodiscard]] Result<std::unique_ptr<engine::Port>> open_worker_port(const Endpoint& server,
                                                                     LocalUse local);

/// Returns the value that a text names: auto, on or off.
[[nodiscard]] std::optional<LocalUse> parse_local_use(std::string_view text);

}  // namespace tributary::host

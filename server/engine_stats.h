// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counters of a server's cores and ports as JSON, for every protocol.
///
/// Tests:   tests/server/appliance_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/live/live_core.h"
#include "engine/port.h"
#include "io/local/local_server.h"

namespace tributary::server {

/// Returns packets and bytes in both directions, and the refused packets.
[[nodiscard]] nlohmann::json port_stats(const engine::PortCounters& port);
/// Returns "rx_dropped" of a row of "ports"; null: unknown. See engine::PortQueue::rx_dropped().
[[nodiscard]] nlohmann::json rx_dropped_json(const std::optional<uint64_t>& rx_dropped);
/// Returns a row of "ports": packets and bytes in both directions, the packets that the kernel has
/// dropped, and "frames" by name if the port handles frames.
[[nodiscard]] nlohmann::json port_stats(const engine::PortQueue& queue);
/// Returns "local": the connections of workers on this machine, and their packets, which "ports"
/// includes.
[[nodiscard]] nlohmann::json local_stats(io::LocalServer& server);
/// Returns a row of "cores".
[[nodiscard]] nlohmann::json core_stats(const engine::CoreCounters& counters);

/// Adds one core's outcomes to the totals by name. Adds bytes only for outcomes that have any.
/// @tparam Outcome The program's outcome enum; to_string() names its values.
template <class Outcome, class Counters>
void add_counters(nlohmann::json& packets, nlohmann::json& bytes, const Counters& counters) {
  for (uint32_t i = 0; i < counters.size(); i++) {
    const char* name = to_string(static_cast<Outcome>(i));
    packets[name] = packets.value(name, uint64_t{0}) + counters[i].packets;
    if (counters[i].bytes > 0) bytes[name] = bytes.value(name, uint64_t{0}) + counters[i].bytes;
  }
}

}  // namespace tributary::server

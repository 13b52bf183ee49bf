// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counters of cores and ports as JSON, whatever program the cores run.
///
/// Threads: Any.
/// Tests:   tests/engine/counters_json_test.cc
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "engine/live/live_core.h"
#include "engine/port.h"

namespace tributary::engine {

/// Counters that only this kind of port has, by name. Empty: the port handles no frames.
using FrameCounters = std::map<std::string, uint64_t>;
[[nodiscard]] FrameCounters frame_counters(const PortQueue& queue);

/// Returns a row of "cores".
[[nodiscard]] nlohmann::json core_json(const CoreCounters& counters);
/// Returns a row of "ports": packets and bytes in both directions, refused packets, and "frames" if
/// there are any.
/// @param rx_dropped See PortQueue::rx_dropped(); unknown: null.
[[nodiscard]] nlohmann::json port_json(const PortCounters& counters,
                                       const std::optional<uint64_t>& rx_dropped,
                                       const FrameCounters& frames = {});
[[nodiscard]] nlohmann::json port_json(const PortQueue& queue);

}  // namespace tributary::engine

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of a whole aggregator at one moment, as Appliance::snapshot() returns it.
///
/// Tests:   tests/server/appliance_test.cc
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/trio_ml/counters.h"
#include "base/endpoint.h"
#include "base/time.h"
#include "engine/live/live_core.h"
#include "engine/port.h"
#include "server/job_snapshot.h"

namespace tributary::server {

struct CoreSnapshot {
  engine::CoreCounters counters;
  Duration cpu;  ///< CPU time of the core's thread since its start.
};

struct Snapshot {
  Instant at;
  Duration uptime;
  Endpoint listen{};
  trio_ml::Counters counters{};  ///< Sums over all cores.
  std::vector<CoreSnapshot> cores;
  std::vector<engine::PortCounters> ports;  ///< Shape [cores].
  /// Shape [cores]: see engine::PortQueue::rx_dropped().
  std::vector<std::optional<uint64_t>> rx_dropped;
  std::vector<JobSnapshot> jobs;  ///< In the order in which they were added.

  [[nodiscard]] std::optional<uint64_t> rx_dropped_at(uint32_t core) const {
    return core < rx_dropped.size() ? rx_dropped[core] : std::nullopt;
  }
  [[nodiscard]] uint64_t packets(trio_ml::Outcome outcome) const {
    return counters[static_cast<uint32_t>(outcome)].packets;
  }
};

}  // namespace tributary::server

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of a whole aggregator at one moment, as Appliance::snapshot() returns it.
///
/// Tests:   tests/server/appliance_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "apps/trio_ml/counters.h"
#include "base/endpoint.h"
#include "base/time.h"
#include "engine/live/live_core.h"
#include "engine/port.h"
#include "server/directory_state.h"
#include "server/job_snapshot.h"

namespace tributary::server {

struct CoreSnapshot {
  engine::CoreCounters counters;
  Duration cpu;  ///< CPU time of the core's thread since its start.
};

/// Packets that a core or its port could not take or send, for one reason.
struct Drop {
  const char* reason;
  std::optional<uint64_t> packets;  ///< Not set: unknown.
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
  /// The jobs that this server plans as their directory; empty: it is none.
  std::vector<DirectoryJob> directory;

  [[nodiscard]] std::optional<uint64_t> rx_dropped_at(uint32_t core) const {
    return core < rx_dropped.size() ? rx_dropped[core] : std::nullopt;
  }
  /// Returns the number of cores that this snapshot knows anything about.
  [[nodiscard]] uint32_t core_count() const {
    return static_cast<uint32_t>(std::max({cores.size(), ports.size(), rx_dropped.size()}));
  }
  /// Returns a core's drops without the packets that its program refused.
  [[nodiscard]] std::array<Drop, 4> drops_at(uint32_t core) const {
    const engine::PortCounters port = core < ports.size() ? ports[core] : engine::PortCounters();
    const uint64_t handover_full = core < cores.size() ? cores[core].counters.handover_full : 0;
    return {{{"rx_truncated", port.rx_truncated},
             {"tx_refused", port.tx_refused},
             {"handover_full", handover_full},
             {"rx_dropped", rx_dropped_at(core)}}};
  }
  [[nodiscard]] uint64_t packets(trio_ml::Outcome outcome) const {
    return counters[static_cast<uint32_t>(outcome)].packets;
  }
};

}  // namespace tributary::server

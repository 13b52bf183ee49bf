// SPDX-License-Identifier: Apache-2.0
/// @file
/// The server's counters in the Prometheus text format, for GET /metrics.
///
/// Model:   A Collectable over snapshots: a scrape reads counters that the cores maintain in any
///          case. Each core copies its part between two bursts. Metrics of prometheus-cpp itself are not used.
/// Labels:  `core`, `job`, `rank`, `reason`, `event` and `result`: their values are limited by the
///          configuration and by enums, never by traffic.
/// Threads: Any.
/// Tests:   tests/server/control/metrics_test.cc
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <string>
#include <vector>

#include "server/control/history.h"
#include "server/control/token_gate.h"
#include "server/snapshot.h"

namespace tributary::control {

class Metrics : public prometheus::Collectable {
 public:
  /// @param history       Source of the ranks' lateness; null: none.
  /// @param http_counters Of the TCP port; empty: there is none.
  Metrics(std::function<server::Snapshot()> snapshot, std::string version,
          const History* history = nullptr, std::function<GateCounters()> http_counters = {})
      : snapshot_(std::move(snapshot)),
        version_(std::move(version)),
        history_(history),
        http_counters_(std::move(http_counters)) {}

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::function<server::Snapshot()> snapshot_;
  const std::string version_;
  const History* const history_;
  const std::function<GateCounters()> http_counters_;
};

/// Returns the collected metrics as text (version 0.0.4 of the format).
[[nodiscard]] std::string metrics_text(const prometheus::Collectable& metrics);

}  // namespace tributary::control

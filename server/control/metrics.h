// SPDX-License-Identifier: Apache-2.0
/// @file
/// The server's counters in the Prometheus text format, for GET /metrics.
///
/// Model:   A Collectable over snapshots: a scrape reads counters that the cores maintain in any
///          case. Each core copies its part between two bursts. Metrics of prometheus-cpp itself
///          are not used.
/// Labels:  `core`, `job`, `session`, `rank`, `reason`, `event`, `result` and `end`: their values
///          are limited by the configuration and by enums, never by traffic.
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
#include "server/log_control.h"
#include "server/record_control.h"
#include "server/snapshot.h"

namespace tributary::control {

/// The parts of a server that not every server has.
struct MetricsSources {
  const History* history = nullptr;  ///< History of the ranks' lateness.
  std::function<GateCounters()> http_counters = {};
  const ConnectionCounters* connections = nullptr;  ///< Over TCP.
  server::RecordControl* recorder = nullptr;
  const server::LogControl* log = nullptr;
};

class Metrics : public prometheus::Collectable {
 public:
  Metrics(std::function<server::Snapshot()> snapshot, std::string version,
          MetricsSources sources = {})
      : snapshot_(std::move(snapshot)),
        version_(std::move(version)),
        sources_(std::move(sources)) {}

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::function<server::Snapshot()> snapshot_;
  const std::string version_;
  const MetricsSources sources_;
};

/// Returns the collected metrics as text (version 0.0.4 of the format).
[[nodiscard]] std::string metrics_text(const prometheus::Collectable& metrics);

}  // namespace tributary::control

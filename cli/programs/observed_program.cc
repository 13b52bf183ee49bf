// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/observed_program.h"

namespace tributary::cli {

server::Snapshot ObservedProgram::snapshot() {
  server::Snapshot snapshot;
  snapshot.at = monotonic_now();
  snapshot.uptime = snapshot.at - started_at_;
  snapshot.service = name_;
  snapshot.listen = place_;
  engine::MachineCounters total;
  for (const programs::LiveCoreState& core : running_.core_states(snapshot.at)) {
    snapshot.cores.push_back({core.counters, core.cpu});
    snapshot.ports.push_back(core.port);
    snapshot.rx_dropped.push_back(core.rx_dropped);
    total.forwarded += core.machine.forwarded;
    total.dropped += core.machine.dropped;
    for (const programs::OutcomeCount& outcome : core.outcomes) {
      snapshot.add(outcome.name, /*refused=*/false, outcome.counter);
    }
    for (const programs::Gauge& gauge : core.gauges) snapshot.records[gauge.name] += gauge.value;
    snapshot.notices.insert(snapshot.notices.end(), core.notices.begin(), core.notices.end());
  }
  snapshot.add("packets_forwarded", /*refused=*/false, {total.forwarded, 0});
  snapshot.add("packets_dropped", /*refused=*/false, {total.dropped, 0});
  return snapshot;
}

}  // namespace tributary::cli

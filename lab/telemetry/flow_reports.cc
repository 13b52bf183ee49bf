// SPDX-License-Identifier: Apache-2.0
#include "lab/telemetry/flow_reports.h"

#include <algorithm>
#include <vector>

namespace tributary::lab {

void FlowReports::report(Instant at, const FlowKey& key, uint64_t packets) {
  Known& known = known_[key];
  known.packets = std::max(known.packets, packets);
  if (!known.found_at && known.packets >= truth_.threshold()) known.found_at = at;
}

FlowScore FlowReports::score() const {
  FlowScore score;
  uint64_t found = 0;
  for (const auto& [key, known] : known_) {
    if (!known.found_at) continue;
    if (truth_.large().contains(key)) {
      found++;
    } else {
      score.false_positives++;
    }
  }
  if (truth_.large().empty()) return score;
  const auto large_count = static_cast<double>(truth_.large().size());
  score.recall = static_cast<double>(found) / large_count;
  // Sums of doubles depend on their order; the order of a hash table depends on the library.
  std::vector<double> errors;
  Duration waited;
  for (const auto& [key, flow] : truth_.large()) {
    const auto at = known_.find(key);
    const uint64_t seen = at == known_.end() ? 0 : at->second.packets;
    const uint64_t difference = seen > flow.packets ? seen - flow.packets : flow.packets - seen;
    errors.push_back(static_cast<double>(difference) / static_cast<double>(flow.packets));
    if (at == known_.end() || !at->second.found_at) continue;
    waited = waited + std::max(Duration(), *at->second.found_at - flow.reached_at);
  }
  std::ranges::sort(errors);
  for (const double error : errors) score.count_error += error / large_count;
  if (found > 0) score.detect_ms = in_seconds(waited) * 1e3 / static_cast<double>(found);
  return score;
}

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text_table.h"
#include "bench/measure.h"
#include "bench/soak/soak.h"

namespace tributary::soak {

double SoakResult::goodput_kept() const {
  std::vector<double> ratios;
  for (const Cycle& cycle : cycles) {
    if (cycle.capacity_gb_per_s > 0) {
      ratios.push_back(cycle.overload_gb_per_s / cycle.capacity_gb_per_s);
    }
  }
  return ratios.empty() ? 0 : bench::median(std::move(ratios));
}

double SoakResult::memory_change() const {
  double change = 0;
  for (const Cycle& cycle : cycles) {
    const auto first = static_cast<double>(cycles.front().resident_bytes);
    if (first <= 0) return INFINITY;  // Unreadable: memory is not known to be flat.
    change = std::max(change, std::abs(static_cast<double>(cycle.resident_bytes) / first - 1));
  }
  return change;
}

uint64_t SoakResult::leaked() const {
  if (cycles.empty()) return 0;
  const Cycle& first = cycles.front();
  const Cycle& last = cycles.back();
  const uint64_t buffers =
      first.buffers_free > last.buffers_free ? first.buffers_free - last.buffers_free : 0;
  return buffers + last.blocks_open;
}

int64_t SoakResult::packets_uncounted() const {
  const int64_t missing = static_cast<int64_t>(packets_sent) - static_cast<int64_t>(packets_taken);
  const auto least = static_cast<int64_t>(drops);
  const int64_t most = trains ? least * kTrainPackets : least;
  return missing < least ? missing - least : std::max<int64_t>(missing - most, 0);
}

std::vector<bench::Verdict> verdicts(const SoakResult& result) {
  const bool ran = result.cycles.size() >= 2;
  return {{"enough seen", ran,
           fmt::format("{} cycles in {:.0f} s", result.cycles.size(), result.seconds)},
          {"goodput under overload", result.goodput_kept() >= kGoodputKept,
           fmt::format("{:.2f} of the goodput at capacity; goal: {}", result.goodput_kept(),
                       kGoodputKept)},
          {"sums", result.wrong == 0 && result.reductions > 0,
           fmt::format("{} wrong elements in {} all-reduces", result.wrong, result.reductions)},
          {"workers", result.failed == 0,
           fmt::format("{} sessions joined, {} all-reduces aborted on purpose, {} failures{}{}",
                       result.sessions, result.broken, result.failed,
                       result.first_failure.empty() ? "" : ": ", result.first_failure)},
          {"memory", ran && result.memory_change() <= kMemoryWithin,
           fmt::format("{:.2f} % from the first cycle's; goal: at most {:.0f} %",
                       result.memory_change() * 100, kMemoryWithin * 100)},
          {"records", ran && result.leaked() == 0,
           fmt::format("{} blocks or buffers not freed", result.leaked())},
          {"losses", ran && result.packets_uncounted() == 0,
           fmt::format("{} packets sent, {} received, {} {} dropped by the socket, {} packets "
                       "unaccounted for; {} contributions retransmitted",
                       result.packets_sent, result.packets_taken, result.drops,
                       result.trains ? "packets or trains" : "packets", result.packets_uncounted(),
                       result.retransmitted)}};
}

std::string as_table(const SoakResult& result) {
  TextTable table;
  table.add({"cycle", "capacity GB/s", "overload GB/s", "kept", "resident MB", "buffers free"});
  for (size_t i = 0; i < result.cycles.size(); i++) {
    const Cycle& cycle = result.cycles[i];
    table.add({std::to_string(i + 1), fmt::format("{:.3f}", cycle.capacity_gb_per_s),
               fmt::format("{:.3f}", cycle.overload_gb_per_s),
               fmt::format("{:.2f}", cycle.overload_gb_per_s / cycle.capacity_gb_per_s),
               fmt::format("{:.2f}", static_cast<double>(cycle.resident_bytes) * 1e-6),
               std::to_string(cycle.buffers_free)});
  }
  return table.text() + "\n" + bench::as_text(verdicts(result));
}

nlohmann::ordered_json as_json(const SoakResult& result) {
  nlohmann::ordered_json json{{"bench", "soak"},
                              {"seconds", result.seconds},
                              {"interrupted", result.interrupted},
                              {"trains", result.trains},
                              {"goodput_kept", result.goodput_kept()},
                              {"memory_change", result.memory_change()},
                              {"leaked", result.leaked()},
                              {"reductions", result.reductions},
                              {"wrong", result.wrong},
                              {"sessions", result.sessions},
                              {"broken", result.broken},
                              {"failed", result.failed},
                              {"packets_sent", result.packets_sent},
                              {"packets_taken", result.packets_taken},
                              {"drops", result.drops},
                              {"packets_uncounted", result.packets_uncounted()},
                              {"retransmitted", result.retransmitted},
                              {"cycles", nlohmann::ordered_json::array()},
                              {"verdicts", bench::as_json(verdicts(result))}};
  for (const Cycle& cycle : result.cycles) {
    json["cycles"].push_back({{"capacity_GB_per_s", cycle.capacity_gb_per_s},
                              {"overload_GB_per_s", cycle.overload_gb_per_s},
                              {"resident_bytes", cycle.resident_bytes},
                              {"buffers_free", cycle.buffers_free},
                              {"blocks_open", cycle.blocks_open}});
  }
  return json;
}

}  // namespace tributary::soak

// SPDX-License-Identifier: Apache-2.0
#include "bench/race/result.h"

#include <algorithm>
#include <map>

#include "base/assert.h"
#include "bench/measure.h"

namespace tributary::race {
namespace {

constexpr double kGigabyte = 1e9;

template <class Field>
double median_of(std::span<const Lap> laps, Field field) {
  std::vector<double> values;
  for (const Lap& lap : laps) values.push_back(lap.*field);
  return bench::median(std::move(values));
}

}  // namespace

Lap lap_of(std::span<const LapReport> reports, const ServerCpu& cpu, uint32_t reductions,
           bool last_is_late) {
  TRIB_ASSERT(!reports.empty() && reductions > 0);
  const auto workers = static_cast<double>(reports.size());
  const double each = 1.0 / reductions;
  const auto timed = reports.first(reports.size() - (last_is_late && reports.size() > 1 ? 1 : 0));
  int64_t start_ns = timed.front().start_ns;
  int64_t end_ns = timed.front().end_ns;
  for (const LapReport& report : timed) {
    start_ns = std::min(start_ns, report.start_ns);
    end_ns = std::max(end_ns, report.end_ns);
  }
  Lap lap;
  double cpu_s = 0;
  double link_bytes = 0;
  for (const LapReport& report : reports) {
    cpu_s += static_cast<double>(report.cpu_ns) * 1e-9;
    link_bytes += static_cast<double>(report.rx_bytes + report.tx_bytes);
    lap.wrong += report.wrong;
    lap.partial += report.partial;
    lap.ranks_differ = lap.ranks_differ || report.digest != reports.front().digest;
  }
  lap.seconds = static_cast<double>(end_ns - start_ns) * 1e-9 * each;
  lap.worker_cpu_s = cpu_s / workers * each;
  lap.total_cpu_s = (cpu_s + cpu.colocated_s + cpu.other_s) * each;
  lap.colocated_cpu_s = cpu.colocated_s / workers * each;
  lap.link_bytes = link_bytes / workers * each;
  return lap;
}

std::optional<RaceRow> row_of(const std::string& system, const RaceCase& race,
                              std::span<const Lap> laps) {
  if (laps.empty()) return std::nullopt;
  RaceRow row;
  row.system = system;
  row.race = race;
  std::vector<double> seconds;
  std::map<uint32_t, std::vector<double>> rounds;
  for (const Lap& lap : laps) {
    seconds.push_back(lap.seconds);
    rounds[lap.round].push_back(lap.seconds);
    row.wrong += lap.wrong;
    row.partial += lap.partial;
    row.laps_differ += lap.ranks_differ ? 1 : 0;
  }
  row.median_s = bench::median(seconds);
  const double between = bench::quantile(seconds, 0.75) - bench::quantile(seconds, 0.25);
  row.spread = row.median_s > 0 ? between / row.median_s : 0;
  const double tensor_gb = static_cast<double>(race.bytes) / kGigabyte;
  row.worker_cpu_s_per_gb = median_of(laps, &Lap::worker_cpu_s) / tensor_gb;
  row.total_cpu_s_per_gb = median_of(laps, &Lap::total_cpu_s) / (tensor_gb * race.workers);
  row.colocated_cpu_s_per_gb = median_of(laps, &Lap::colocated_cpu_s) / tensor_gb;
  row.link_bytes = median_of(laps, &Lap::link_bytes);
  for (auto& [round, values] : rounds) {
    row.round_medians_s.push_back(bench::median(std::move(values)));
  }
  return row;
}

std::optional<PairedRatio> paired_ratio(const RaceRow& a, const RaceRow& b) {
  if (a.round_medians_s.size() != b.round_medians_s.size()) return std::nullopt;
  std::vector<double> ratios;
  for (size_t i = 0; i < a.round_medians_s.size(); i++) {
    ratios.push_back(a.round_medians_s[i] / b.round_medians_s[i]);
  }
  if (ratios.empty()) return std::nullopt;
  return PairedRatio{.median = bench::median(ratios),
                     .min = bench::quantile(ratios, 0.0),
                     .max = bench::quantile(ratios, 1.0)};
}

double wire_ratio(uint32_t mtu_bytes) {
  constexpr double kEthernetBytes = 14;
  constexpr double kHeaderBytes = 20 + 20 + 12;  // IP, TCP, time stamps.
  return (mtu_bytes + kEthernetBytes) / (mtu_bytes - kHeaderBytes);
}

double link_seconds(uint64_t bytes, uint32_t mbit, uint32_t mtu_bytes) {
  const double bits = static_cast<double>(bytes) * wire_ratio(mtu_bytes) * 8.0;
  return bits / (static_cast<double>(mbit) * 1e6);
}

}  // namespace tributary::race

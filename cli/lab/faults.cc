// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/faults.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::cli {

using nlohmann::ordered_json;

namespace {

/// The number of trace lines that are shown, up to the end of the run.
constexpr size_t kTraceLines = 40;

std::string failure_text(const lab::CampaignFailure& failure) {
  const lab::FaultResult& found = failure.result;
  std::string text = fmt::format("\nseed {}: {}\n", found.seed, failure.plan);
  for (uint32_t i = 0; i < lab::kBreachKinds; i++) {
    for (const std::string& line : found.breaches[i]) {
      text += fmt::format("  {}: {}\n", lab::kBreachNames[i], line);
    }
  }
  const auto& trace = failure.smallest.trace;
  const size_t first = trace.size() - std::min(trace.size(), kTraceLines);
  text += fmt::format("  with {} alone, the last {} lines of its trace:\n",
                      failure.kinds.to_string(), trace.size() - first);
  for (size_t i = first; i < trace.size(); i++) text += fmt::format("  | {}\n", trace[i]);
  return text + fmt::format("  replay: {}\n", failure.replay);
}

ordered_json failure_json(const lab::CampaignFailure& failure) {
  ordered_json json{{"seed", failure.result.seed}, {"plan", failure.plan}};
  for (uint32_t i = 0; i < lab::kBreachKinds; i++) {
    json[lab::kBreachNames[i]] = failure.result.breaches[i];
  }
  json["smallest_kinds"] = failure.kinds.to_string();
  json["trace"] = failure.smallest.trace;
  json["replay"] = failure.replay;
  return json;
}

uint64_t caught_count(const std::vector<MutantRow>& rows) {
  return static_cast<uint64_t>(
      std::count_if(rows.begin(), rows.end(), [](const MutantRow& row) { return row.caught; }));
}

}  // namespace

std::string as_text(const lab::CampaignReport& report, double seeds_per_s) {
  std::string text = fmt::format("{} seeds from {}:", report.seeds, report.first_seed);
  for (uint32_t i = 0; i < lab::kBreachKinds; i++) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", report.breaches[i], lab::kBreachNames[i]);
  }
  text += "\n";
  text += fmt::format("{} packets, {} restarts of jobs, {:.0f} seeds/s on each core\n",
                      report.packets, report.restarts, seeds_per_s);
  if (report.owned_sums > 0) {
    text += fmt::format("{} datagrams with a sum for one rank, judged where they went\n",
                        report.owned_sums);
  }
  for (uint32_t i = 0; i < lab::kFaultKindCount; i++) {
    text += fmt::format("  {:<18}{:>12}\n", to_string(static_cast<lab::FaultKind>(i)),
                        report.faults[i]);
  }
  if (report.shape.protocol == wire::Protocol::kSwitchml) {
    text += fmt::format(
        "packets that came after a later use of their slot: {} sums spoiled on the published "
        "switch, {} runs of jobs ended at the deadline\n",
        report.spoiled_sums, report.overtaken_stalls);
  }
  text += fmt::format("digest {:016x}\n", report.digest);
  for (const lab::CampaignFailure& failure : report.failures) text += failure_text(failure);
  if (report.failed_seeds > report.failures.size()) {
    text += fmt::format("… and {} more seeds\n", report.failed_seeds - report.failures.size());
  }
  return text;
}

ordered_json as_json(const lab::CampaignReport& report, double seeds_per_s) {
  ordered_json faults;
  for (uint32_t i = 0; i < lab::kFaultKindCount; i++) {
    faults[to_string(static_cast<lab::FaultKind>(i))] = report.faults[i];
  }
  ordered_json failures = ordered_json::array();
  for (const lab::CampaignFailure& failure : report.failures) {
    failures.push_back(failure_json(failure));
  }
  ordered_json json{{"seeds", report.seeds}, {"first_seed", report.first_seed}};
  for (uint32_t i = 0; i < lab::kBreachKinds; i++) {
    json[lab::kBreachNames[i]] = report.breaches[i];
  }
  json["failed_seeds"] = report.failed_seeds;
  json["packets"] = report.packets;
  json["restarts"] = report.restarts;
  json["owned_sums"] = report.owned_sums;
  json["protocol"] = to_string(report.shape.protocol);
  json["attackers"] = report.shape.attackers;
  json["sharded"] = report.shape.sharded;
  json["spoiled_sums"] = report.spoiled_sums;
  json["overtaken_stalls"] = report.overtaken_stalls;
  json["faults"] = faults;
  json["digest"] = fmt::format("{:016x}", report.digest);
  json["seeds_per_s_per_core"] = seeds_per_s;
  json["failures"] = failures;
  return json;
}

std::string as_text(const std::vector<MutantRow>& rows) {
  std::string text;
  for (const MutantRow& row : rows) {
    text += fmt::format("{} {:<24} {:>6} seeds  {}\n", row.caught ? "caught" : "MISSED", row.name,
                        row.seeds, row.caught ? row.how : row.bug);
  }
  const uint64_t caught = caught_count(rows);
  return text +
         fmt::format("mutants_planted {}\nmutants_caught {} ({:.1f} %)\n", rows.size(), caught,
                     rows.empty()
                         ? 0.0
                         : 100.0 * static_cast<double>(caught) / static_cast<double>(rows.size()));
}

ordered_json as_json(const std::vector<MutantRow>& rows) {
  ordered_json list = ordered_json::array();
  for (const MutantRow& row : rows) {
    list.push_back({{"mutant", row.name},
                    {"what", row.bug},
                    {"caught", row.caught},
                    {"seeds", row.seeds},
                    {"how", row.how}});
  }
  return {
      {"mutants_planted", rows.size()}, {"mutants_caught", caught_count(rows)}, {"mutants", list}};
}

}  // namespace tributary::cli

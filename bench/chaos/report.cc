// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/text_table.h"
#include "bench/chaos/chaos.h"
#include "bench/measure.h"

namespace tributary::chaos {
namespace {

double most(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

double middle(const std::vector<double>& values) {
  return values.empty() ? 0 : bench::median(values);
}

std::string cell(double value, bool known) { return known ? fmt::format("{:.0f}", value) : "–"; }

nlohmann::ordered_json times_json(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  return {{"count", values.size()}, {"median", middle(values)}, {"max", most(values)}};
}

}  // namespace

uint64_t ChaosResult::leaked() const {
  const auto leaks = std::count_if(lives.begin(), lives.end(),
                                   [](const ServerLife& life) { return life.has_leaked(); });
  return static_cast<uint64_t>(leaks) + sessions_left + blocks_left;
}

std::vector<bench::Verdict> verdicts(const ChaosResult& result) {
  uint64_t growth_bytes = 0;
  uint64_t files = 0;
  for (const ServerLife& life : result.lives) {
    growth_bytes = std::max(growth_bytes,
                            life.resident_end - std::min(life.resident_begin, life.resident_end));
    files = std::max(files, life.files_end - std::min(life.files_begin, life.files_end));
  }
  return {
      {"sums", result.wrong == 0 && result.reductions > 0,
       fmt::format("{} wrong elements in {} all-reduces", result.wrong, result.reductions)},
      {"waits", result.waits_beyond_deadline == 0,
       fmt::format("{} waits beyond the deadline of {} s", result.waits_beyond_deadline,
                   result.config.deadline_s)},
      {"ends", result.unexpected_ends == 0,
       fmt::format("{} workers ended without a fault that ends sessions{}{}",
                   result.unexpected_ends,
                   result.first_failure.empty() ? "" : "; first: ", result.first_failure)},
      {"leaks", result.leaked() == 0,
       fmt::format("a server grew by at most {} KB and {} files; {} sessions and {} blocks left",
                   growth_bytes / 1000, files, result.sessions_left, result.blocks_left)}};
}

std::string as_table(const ChaosResult& result) {
  TextTable table({0});
  table.add({"fault", "count", "notice ms", "max", "recovery ms", "max"});
  for (const FaultKind kind : all_fault_kinds()) {
    const FaultFigures& figures = result.faults[static_cast<size_t>(kind)];
    if (figures.count == 0) continue;
    const bool noticed = !figures.notice_ms.empty();
    const bool recovered = !figures.recovery_ms.empty();
    table.add({to_string(kind), std::to_string(figures.count),
               cell(middle(figures.notice_ms), noticed), cell(most(figures.notice_ms), noticed),
               cell(middle(figures.recovery_ms), recovered),
               cell(most(figures.recovery_ms), recovered)});
  }
  std::string text =
      fmt::format("{} workers over {}, auth {}, seed {}, {:.0f} s, {} forged and {} junk packets\n",
                  result.config.workers, result.network, auth::to_string(result.config.auth),
                  result.config.seed, result.seconds, result.forged, result.flooded) +
      table.text() + "\n";
  for (const std::string& reason : result.skipped) text += fmt::format("skipped  {}\n", reason);
  return text + bench::as_text(verdicts(result));
}

nlohmann::ordered_json as_json(const ChaosResult& result) {
  nlohmann::ordered_json json{{"bench", "chaos"},
                              {"seed", result.config.seed},
                              {"network", result.network},
                              {"auth", auth::to_string(result.config.auth)},
                              {"workers", result.config.workers},
                              {"elements", result.config.elements},
                              {"deadline_s", result.config.deadline_s},
                              {"forged_per_s", result.config.forged_per_s},
                              {"flooded_per_s", result.config.flooded_per_s},
                              {"seconds", result.seconds},
                              {"interrupted", result.interrupted},
                              {"reductions", result.reductions},
                              {"wrong", result.wrong},
                              {"waits_beyond_deadline", result.waits_beyond_deadline},
                              {"unexpected_ends", result.unexpected_ends},
                              {"leaked", result.leaked()},
                              {"sessions_left", result.sessions_left},
                              {"blocks_left", result.blocks_left},
                              {"forged", result.forged},
                              {"flooded", result.flooded},
                              {"first_failure", result.first_failure},
                              {"skipped", result.skipped},
                              {"faults", nlohmann::ordered_json::array()},
                              {"servers", nlohmann::ordered_json::array()},
                              {"verdicts", bench::as_json(verdicts(result))}};
  for (const FaultKind kind : all_fault_kinds()) {
    const FaultFigures& figures = result.faults[static_cast<size_t>(kind)];
    if (figures.count == 0) continue;
    json["faults"].push_back({{"kind", to_string(kind)},
                              {"count", figures.count},
                              {"notice_ms", times_json(figures.notice_ms)},
                              {"recovery_ms", times_json(figures.recovery_ms)}});
  }
  for (const ServerLife& life : result.lives) {
    json["servers"].push_back({{"resident_bytes_begin", life.resident_begin},
                               {"resident_bytes_end", life.resident_end},
                               {"open_files_begin", life.files_begin},
                               {"open_files_end", life.files_end}});
  }
  return json;
}

}  // namespace tributary::chaos

// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/program_faults.h"

#include <fmt/format.h>

namespace tributary::cli {
namespace {

std::string replay_of(const std::string& program, uint64_t seed) {
  return fmt::format("tributary lab faults --program {} --seed {}", program, seed);
}

}  // namespace

std::string as_text(const std::string& program, const lab::ProgramCampaignReport& report) {
  std::string text = fmt::format("{}: {} seeds, {} with a broken promise, {} packets\n", program,
                                 report.seeds, report.failed_seeds, report.packets);
  for (size_t i = 0; i < report.faults.size(); i++) {
    text += fmt::format("  {:<18}{:>12}\n", to_string(static_cast<lab::WireFault>(i)),
                        report.faults[i]);
  }
  for (const lab::ProgramFaultResult& failure : report.failures) {
    text += fmt::format("\nseed {}\n", failure.seed);
    for (const std::string& line : failure.breaches) text += fmt::format("  {}\n", line);
    text += fmt::format("  replay: {}\n", replay_of(program, failure.seed));
  }
  return text;
}

nlohmann::ordered_json as_json(const std::string& program,
                               const lab::ProgramCampaignReport& report) {
  nlohmann::ordered_json json{{"program", program},
                              {"seeds", report.seeds},
                              {"failed_seeds", report.failed_seeds},
                              {"packets", report.packets}};
  for (size_t i = 0; i < report.faults.size(); i++) {
    json["faults"][to_string(static_cast<lab::WireFault>(i))] = report.faults[i];
  }
  json["failures"] = nlohmann::ordered_json::array();
  for (const lab::ProgramFaultResult& failure : report.failures) {
    json["failures"].push_back({{"seed", failure.seed},
                                {"breaches", failure.breaches},
                                {"replay", replay_of(program, failure.seed)}});
  }
  return json;
}

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary lab faults`: the findings of the fault campaign (lab/faults/), as text and as JSON.
///
/// Tests: tests/cli/lab/faults_command_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/faults/campaign.h"

namespace tributary::cli {

/// The result for one planted bug.
struct MutantRow {
  std::string name;
  std::string bug;
  bool caught = false;
  uint64_t seeds = 0;    ///< Until it was caught, or all that were tried.
  std::string how = {};  ///< The promise that broke, or how the program died.
};

/// @param seeds_per_s Runs in a second of a core's time, measured; only said, never checked.
[[nodiscard]] std::string as_text(const lab::CampaignReport& report, double seeds_per_s);
[[nodiscard]] nlohmann::ordered_json as_json(const lab::CampaignReport& report, double seeds_per_s);
[[nodiscard]] std::string as_text(const std::vector<MutantRow>& rows);
[[nodiscard]] nlohmann::ordered_json as_json(const std::vector<MutantRow>& rows);

/// Makes a row from a line of `tributary-mutants`: "caught SEEDS HOW" or "missed SEEDS".
[[nodiscard]] MutantRow mutant_row(const std::string& name, const std::string& bug,
                                   const std::string& line, const std::string& end_text);

struct MutantRuns {
  uint64_t first_seed = 1;
  uint64_t seeds = 1000;           ///< Most seeds for each mutant.
  uint32_t processes = 1;          ///< At once.
  std::vector<std::string> names;  ///< Empty: all.
};
/// Runs `tributary-mutants`, which lies beside this program, once for each planted bug.
[[nodiscard]] Result<std::vector<MutantRow>> run_mutants(const MutantRuns& runs);

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The report of `tributary lab faults --program` (lab/program_faults/), for people and as JSON.
///
/// Threads: Pure functions.
/// Errors:  None.
/// Tests:   tests/cli/lab/program_faults_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lab/program_faults/program_faults.h"

namespace tributary::cli {

[[nodiscard]] std::string as_text(const std::string& program,
                                  const lab::ProgramCampaignReport& report);
[[nodiscard]] nlohmann::ordered_json as_json(const std::string& program,
                                             const lab::ProgramCampaignReport& report);

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The result of `tributary traffic`, as text for people and as JSON for programs.
///
/// Units:   Times in seconds from the first instant of the traffic; sizes in bytes without the
///          frame check sequence.
/// Threads: Pure functions.
/// Tests:   tests/cli/programs/traffic_report_test.cc
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "traffic/generator.h"

namespace tributary::cli {

/// Returns one line for the whole and one for each class that has packets.
[[nodiscard]] std::string traffic_text(const traffic::Summary& summary);

/// Returns the settings, the counts of each class with its source prefixes, and the servers.
[[nodiscard]] nlohmann::ordered_json traffic_json(const traffic::Config& config,
                                                  const traffic::Summary& summary);

}  // namespace tributary::cli

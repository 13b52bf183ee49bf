// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary lab trace`: the events of packets inside the modelled machines of a
/// scenario, as text and JSON lines; or snapshots of the machines at given times.
///
/// Tests: tests/cli/lab/trace_command_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/key_table.h"

namespace tributary::cli {

/// Adds the command below `lab`. @param exit_code Set when it has run: 0 if there was something to
/// show, 1 if not or if the run failed, 2 for flags that are not allowed.
void add_lab_trace(CLI::App& lab, int& exit_code);

/// Returns the settings of the traced scenario. Without a file and a number of iterations it has
/// one iteration, because a trace of the usual hundred takes minutes.
[[nodiscard]] std::vector<WrittenKey> trace_settings(const std::string& scenario_path,
                                                     std::vector<WrittenKey> settings);

}  // namespace tributary::cli

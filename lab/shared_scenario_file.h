// SPDX-License-Identifier: Apache-2.0
/// @file
/// Several jobs in one network as a TOML file: keys of the network and defaults of all jobs at the
/// top, then a table for each job.
///
///   workers = 8                    # hosts of the network
///   [[job]]
///   name = "vision"
///   workers = 4                    # of this job; and any key that does not concern the network
///
/// Errors:  One line: "mix.toml:12: job 'vision': hosts=9 is not allowed; allowed: 0 to 7".
/// Threads: Pure functions.
/// Tests:   tests/lab/shared_scenario_file_test.cc
#pragma once

#include <span>
#include <string>

#include "base/key_table.h"
#include "base/result.h"
#include "lab/shared_scenario.h"

namespace tributary::lab {

/// Returns whether a file describes several jobs: whether it has a key "job".
[[nodiscard]] Result<bool> names_jobs(const std::string& path);

/// Reads a file, and sets `settings` over it: over the network's keys and, except for `workers`,
/// over each job's. The result has passed check().
///
/// - A job without `seed` gets one from the network's seed and the job's name.
/// - Jobs with `hosts` are placed first, then the others in the order of their names, on the lowest
///   free hosts; with `racks`, one host of each rack in turn.
[[nodiscard]] Result<SharedScenario> read_shared_scenario(const std::string& path,
                                                          std::span<const WrittenKey> settings);

/// Returns the network's keys and each job's as TOML that reads back as an equal scenario.
[[nodiscard]] std::string shared_scenario_text(const SharedScenario& scenario);

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plans the aggregators of `tributary launch`: those to start on this machine, and the list for
/// its ranks.
///
/// Model:   Without a list of machines, all aggregators are here and have the same share. With one,
///          every machine's launcher makes the same plan and starts its own machine's part of it.
///          If a machine has several ranks, it gets a lower aggregator for each aggregator of the
///          plan: they add the machine's tensors, so only one copy of a tensor leaves it.
/// Errors:  One line that names the flag, its value and the values allowed.
/// Tests:   tests/cli/launch/launch_plan_test.cc
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/launch/launch_plan.h"

namespace tributary::cli {

inline constexpr const char* kOwnBackend = "tributary";
/// Longest service for ranks of other machines after the last rank of this one has ended.
inline constexpr std::chrono::seconds kLinger{60};

/// The ranks of this machine among all.
struct Ranks {
  uint32_t world = 1;
  uint32_t first = 0;
  std::string master;  ///< HOST:PORT; empty: a free port here.
};

struct Aggregators {
  std::vector<ProgramPlan> started;
  std::string list;             ///< HOST:PORT[=WEIGHT],… for the ranks; empty: they need none.
  bool reduce_locally = false;  ///< The ranks are sources of lower aggregators.
};

/// Tells whether ranks run on other machines, too.
[[nodiscard]] bool spans_machines(const LaunchConfig& config, const Ranks& ranks);

/// Returns the CPUs that --aggregator-cpus names, in its order; none without that flag.
[[nodiscard]] Result<std::vector<int>> aggregator_cpus(const LaunchConfig& config,
                                                       const HostFacts& facts);

/// Checks --aggregators and the flags that belong to it.
[[nodiscard]] Result<void> check_aggregators(const LaunchConfig& config);

[[nodiscard]] Result<Aggregators> plan_aggregators(const LaunchConfig& config,
                                                   const HostFacts& facts, const Ranks& ranks);

}  // namespace tributary::cli

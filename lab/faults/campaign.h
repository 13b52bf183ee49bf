// SPDX-License-Identifier: Apache-2.0
/// @file
/// The fault campaign: many seeds, each a whole run (fault_run.h), over the cores of a machine.
///
/// Model:   A run that breaks a promise is made small: kinds of faults are taken out one by one as
///          long as it still fails in the same way, and what is left is run again with its trace.
/// Threads: As many as asked for; each run belongs to one of them.
/// Determinism: The report does not depend on the number of threads.
/// Tests:   tests/lab/faults/campaign_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/faults/fault_run.h"

namespace tributary::lab {

struct CampaignConfig {
  uint64_t first_seed = 1;
  uint64_t seeds = 1000;
  uint32_t threads = 1;
  FaultKinds only = FaultKinds::all();
  wire::Protocol protocol = wire::Protocol::kTrioMl;
  /// Called as runs end, from their threads, one call at a time, with the number of those over.
  std::function<void(uint64_t over)> on_progress = {};
  /// Asked before each run; true ends the campaign early.
  std::function<bool()> is_stopped = {};
};

/// A seed that broke a promise.
struct CampaignFailure {
  FaultResult result;    ///< As it was found.
  std::string plan;      ///< What the run is like.
  FaultKinds kinds;      ///< What is needed to see it.
  FaultResult smallest;  ///< With these alone, and its trace.
  std::string replay;    ///< The command that shows it again.
};

struct CampaignReport {
  uint64_t first_seed = 0;
  uint64_t seeds = 0;  ///< Runs that are over.
  uint64_t wrong = 0;  ///< Breaches, by kind; not runs.
  uint64_t stuck = 0;
  uint64_t leaked = 0;
  uint64_t packets = 0;
  uint64_t restarts = 0;
  uint64_t spoiled_sums = 0;  ///< See FaultResult.
  uint64_t overtaken_stalls = 0;
  wire::Protocol protocol = wire::Protocol::kTrioMl;
  std::array<uint64_t, kFaultKindCount> faults{};
  uint64_t digest = 0;                    ///< Of all runs, in the order of their seeds.
  std::vector<CampaignFailure> failures;  ///< The first kFailuresMax.
  uint64_t failed_seeds = 0;

  [[nodiscard]] bool is_good() const { return wrong + stuck + leaked == 0; }
};
inline constexpr uint32_t kFailuresMax = 3;

[[nodiscard]] CampaignReport run_campaign(const CampaignConfig& config);

/// The fewest kinds of faults, of those that `seed` has, with which it still breaks a promise.
[[nodiscard]] FaultKinds smallest_kinds(uint64_t seed, FaultKinds only, const FaultResult& failed,
                                        wire::Protocol protocol = wire::Protocol::kTrioMl);

/// The command that runs one seed again, with its trace.
[[nodiscard]] std::string replay_command(uint64_t seed, FaultKinds kinds,
                                         wire::Protocol protocol = wire::Protocol::kTrioMl);

}  // namespace tributary::lab

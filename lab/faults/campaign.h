// SPDX-License-Identifier: Apache-2.0
/// @file
/// The fault campaign: many seeds, each a whole run (fault_run.h), spread over the cores of a
/// machine.
///
/// Model:   A failing run is reduced: kinds of faults are removed one by one while it still fails
///          in the same way. The reduced run is repeated with its trace.
/// Threads: As many as requested; each run belongs to one of them.
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
  PlanShape shape = {};
  /// Called after each run, from the run's thread, one call at a time, with the number of runs
  /// done.
  std::function<void(uint64_t over)> on_progress = {};
  /// Polled before each run; true ends the campaign early.
  std::function<bool()> is_stopped = {};
};

/// A seed that broke a promise.
struct CampaignFailure {
  FaultResult result;    ///< The result of the original run.
  std::string plan;      ///< Description of the run.
  FaultKinds kinds;      ///< The smallest set of faults that still fails.
  FaultResult smallest;  ///< The result with these faults alone, with its trace.
  std::string replay;    ///< The command that repeats it.
};

struct CampaignReport {
  uint64_t first_seed = 0;
  uint64_t seeds = 0;                             ///< Completed runs.
  std::array<uint64_t, kBreachKinds> breaches{};  ///< Lines (not runs), by kind.
  uint64_t packets = 0;
  uint64_t restarts = 0;
  uint64_t owned_sums = 0;
  uint64_t spoiled_sums = 0;  ///< See FaultResult.
  uint64_t overtaken_stalls = 0;
  PlanShape shape = {};
  std::array<uint64_t, kFaultKindCount> faults{};
  uint64_t digest = 0;                    ///< Digest of all runs, in the order of their seeds.
  std::vector<CampaignFailure> failures;  ///< The first kFailuresMax.
  uint64_t failed_seeds = 0;

  [[nodiscard]] bool is_good() const { return breaches == std::array<uint64_t, kBreachKinds>{}; }
};
inline constexpr uint32_t kFailuresMax = 3;

[[nodiscard]] CampaignReport run_campaign(const CampaignConfig& config);

/// Returns a minimal subset of the seed's kinds of faults that still breaks a promise.
[[nodiscard]] FaultKinds smallest_kinds(uint64_t seed, FaultKinds only, const FaultResult& failed,
                                        const PlanShape& shape = {});

/// Returns the command that repeats one seed with its trace.
[[nodiscard]] std::string replay_command(uint64_t seed, FaultKinds kinds,
                                         const PlanShape& shape = {});

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run of the fault campaign, from its plan to its verdict.
///
/// Model:   Faults occur until the plan's calm_at. Then all ranks must finish, run the last
///          collectives in step, and leave; no state may remain.
/// Threads: One; runs share nothing.
/// Determinism: The same plan gives the same result, digest included, with every compiler.
/// Tests:   tests/lab/faults/fault_run_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lab/faults/fault_plan.h"
#include "lab/faults/journal.h"

namespace tributary::lab {

struct FaultResult {
  uint64_t seed = 0;
  Breaches breaches;             ///< The broken promises.
  uint64_t packets = 0;          ///< Packets delivered by links.
  uint64_t restarts = 0;         ///< Restarts of jobs after a rank failed.
  uint64_t degraded_blocks = 0;  ///< In all results of workers.
  uint64_t owned_sums = 0;       ///< Datagrams with a sum of one rank, where these are judged.
  // SwitchML: outcomes of packets that arrived after a later use of their slot.
  uint64_t spoiled_sums = 0;      ///< Wrong sums of the published switch, which cannot detect them.
  uint64_t overtaken_stalls = 0;  ///< Runs of a job that therefore ended at the deadline.
  uint64_t repairs = 0;           ///< Probes and retransmissions of the processes that finished.
  std::array<uint64_t, kFaultKindCount> faults{};  ///< Faults that occurred, by kind.
  Duration length;                                 ///< Virtual time.
  uint64_t digest = 0;
  std::vector<std::string> trace;  ///< If requested.

  [[nodiscard]] bool is_good() const {
    for (const auto& lines : breaches) {
      if (!lines.empty()) return false;
    }
    return true;
  }
};

[[nodiscard]] FaultResult run_faults(const FaultPlan& plan, bool traced = false);

}  // namespace tributary::lab

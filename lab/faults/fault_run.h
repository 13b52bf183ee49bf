// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run of the fault campaign, from a plan to its verdict.
///
/// Model:   Everything goes wrong until the plan's calm_at. Then all ranks have to finish, do the
///          last collectives in step, and leave; and nothing may be left over.
/// Threads: One; runs share nothing.
/// Determinism: The same plan gives the same result, digest included, with every compiler.
/// Tests:   tests/lab/faults/fault_run_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lab/faults/fault_plan.h"

namespace tributary::lab {

struct FaultResult {
  uint64_t seed = 0;
  std::vector<std::string> wrong;   ///< One line for each breach of a promise.
  std::vector<std::string> stuck;   ///< Who waited beyond the deadline or could not finish.
  std::vector<std::string> leaked;  ///< What was left over.
  uint64_t packets = 0;             ///< Delivered at the end of some link.
  uint64_t restarts = 0;            ///< Of jobs, after a rank had failed.
  uint64_t degraded_blocks = 0;     ///< In all that workers were given.
  // SwitchML, named outcomes of packets that came after a later use of their slot.
  uint64_t spoiled_sums = 0;      ///< Wrong, of the published switch: it does not notice.
  uint64_t overtaken_stalls = 0;  ///< Runs of a job that ended at the deadline for it.
  uint64_t repairs = 0;  ///< Probes and repeated contributions of the processes that finished.
  std::array<uint64_t, kFaultKindCount> faults{};  ///< That happened, by kind.
  Duration length;                                 ///< In virtual time.
  uint64_t digest = 0;
  std::vector<std::string> trace;  ///< If asked for.

  [[nodiscard]] bool is_good() const { return wrong.empty() && stuck.empty() && leaked.empty(); }
};

[[nodiscard]] FaultResult run_faults(const FaultPlan& plan, bool traced = false);

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the machines of `tributary plan`: a number, or a list of addresses with ports and rates.
///
/// Shapes:  "4", "4@25", or "10.0.0.1,10.0.0.2:12000@25/8,[fd00::3]": ADDRESS[:PORT][@GBIT[/SUM]],
///          the rate of the link, and of the gradients that the CPU adds, both in Gbit/s.
/// Threads: Pure functions. No name is resolved.
/// Errors:  One line with the flag, the value and the allowed values.
/// Tests:   tests/cli/plan/plan_machines_test.cc
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/machine.h"

namespace tributary::cli {

/// Most machines of each role: most ranks of a job (wire::kSourcesMax).
inline constexpr uint32_t kPlanMachinesMax = 256;

inline constexpr double kGbitMin = 0.001;
inline constexpr double kGbitMax = 100'000;
inline constexpr double kBytesPerGbit = 125e6;

/// The flags of `tributary plan` that describe machines.
struct PlanFlags {
  std::string workers;
  std::string servers = "0";  ///< Spare machines, which only aggregate.
  bool colocated = true;      ///< Workers' machines run aggregators.
  double link_gbit = 10;      ///< Link rate of machines without an @GBIT.
  double sum_gbit =
      std::numeric_limits<double>::infinity();  ///< Rate at which these machines add gradients.
};

struct PlanMachines {
  std::vector<plan::Machine> machines;  ///< Workers first, then spare machines.
  std::vector<std::string> endpoints;   ///< HOST:PORT of each machine's aggregator.
};

/// Returns the machines. Those of a number are called worker0, worker1, … and server0, server1, …
/// Refuses the machines that check_machines() refuses.
[[nodiscard]] Result<PlanMachines> read_plan_machines(const PlanFlags& flags);

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The result of `tributary plan`, as text for people and as JSON for programs.
///
/// Units:   Seconds, bytes, Gbit/s as the keys say.
/// Threads: Pure functions.
/// Errors:  Those of read_plan_machines(); more aggregators in the plan than wire::kAggregatorsMax.
/// Tests:   tests/cli/plan/plan_report_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "cli/plan/plan_machines.h"
#include "plan/assignment.h"

namespace tributary::cli {

struct PlanRequest {
  PlanFlags flags;
  uint64_t bytes = 100'000'000;  ///< Gradients of one all-reduce.
  uint32_t mtu = 1500;
  uint32_t job_id = 1;
};

struct PlanReport {
  PlanRequest request;
  PlanMachines machines;
  uint32_t workers = 0;
  uint32_t gradients = 0;  ///< In a packet.
  plan::TensorSize tensor;
  plan::Assignment assignment;
  std::string servers;  ///< HOST:PORT[=WEIGHT],… of the aggregators with a share.
  std::string url;      ///< For the workers, without their rank.
};

/// Writes the list of aggregators with a weight above 0. Weights that are all 1 are left out.
[[nodiscard]] std::string list_of_servers(const std::vector<std::string>& endpoints,
                                          const std::vector<uint32_t>& weights);

/// Plans the job.
[[nodiscard]] Result<PlanReport> make_plan_report(const PlanRequest& request);

/// Returns the table of machines, the times and the URL.
[[nodiscard]] std::string as_text(const PlanReport& report);
[[nodiscard]] nlohmann::ordered_json as_json(const PlanReport& report);

}  // namespace tributary::cli

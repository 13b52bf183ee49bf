// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary plan`: the shares of several aggregators, the time of an all-reduce, and
/// the URL for the workers.
///
/// Threads: One.
/// Errors:  One line for machines that make no plan or a file that cannot be written.
/// Tests:   tests/cli/plan/plan_command_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>

#include "cli/plan/plan_report.h"

namespace tributary::cli {

struct PlanOptions {
  PlanRequest request;
  std::string json;  ///< Result file; empty for none.
};

/// Declares an option for a rate in Gbit/s, from kGbitMin to kGbitMax. `fallback` is the default
/// that help shows.
CLI::Option* add_gbit(CLI::App& command, const char* flag, double& value,
                      const std::string& fallback, const char* help);

/// Declares the flags that describe machines. @return the flag of the workers.
CLI::Option* add_plan_machines(CLI::App& command, PlanFlags& flags);

/// Declares the flag that keeps aggregators off the worker machines.
void add_colocated(CLI::App& command, PlanFlags& flags);

/// Declares the command.
CLI::App* add_plan(CLI::App& app, PlanOptions& options);

/// Runs the command.
/// @return 0, kExitUsage for a refused plan, or 1 if the result file cannot be written.
[[nodiscard]] int run_plan(const PlanOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tributary::cli

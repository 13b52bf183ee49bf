// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the plan of launch_plan.h: starts the programs, forwards lines and signals, and ends them.
///
/// Model:   Runs the check, starts the aggregator, then the ranks when it is ready. When a rank
///          fails by itself, all others get SIGTERM, and SIGKILL after kEndWithin, unless
///          keep_going is set. If a rank fails because of another rank, launch waits for the rank
///          at fault and names it. An aggregator's end also ends the ranks, unless another share of
///          the tensors is left.
///          SIGINT, SIGTERM and SIGHUP are forwarded; a second one kills.
/// Threads: One. It sleeps in poll() on pipes and a signalfd. The signals stay blocked.
/// Errors:  Printed with the failed program's name; the exit code is that of the first failure.
/// Tests:   tests/cli/launch/launch_run_test.cc
#pragma once

#include <cstdio>

#include "cli/launch/launch_plan.h"

namespace tributary::cli {

/// Runs the plan to its end.
/// @param out, err Receive the ranks' lines, each after "[RANK] ", and messages.
/// @return the exit code: 0 if all ranks succeeded; the first failed rank's code, or 128 + signal
///   if a signal killed it; 128 + signal after an interrupt; 1 if a program could not be started.
int run_launch(const LaunchPlan& plan, bool keep_going, std::FILE* out, std::FILE* err);

}  // namespace tributary::cli

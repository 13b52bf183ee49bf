// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs what launch_plan.h has planned: starts it, passes its lines and signals on, ends it.
///
/// Model:   The aggregator first; the ranks once it is ready. A rank that fails ends all (unless
///          told otherwise): SIGTERM, and SIGKILL to what is left after kEndWithin. SIGINT, SIGTERM
///          and SIGHUP are passed on to the ranks; a second one kills them. When this process dies,
///          the kernel kills all others.
/// Threads: One; it sleeps in poll() on pipes and a signalfd. The signals stay blocked.
/// Errors:  Printed with the name of who failed; the exit code is that of the first who did.
/// Tests:   tests/cli/launch/launch_run_test.cc
#pragma once

#include <cstdio>

#include "cli/launch/launch_plan.h"

namespace tributary::cli {

/// Runs to the end. @param out, err Get the ranks' lines, each behind "[RANK] ", and messages.
/// @return the exit code: 0 when all ranks ended well, else the first failed one's (128 + signal
/// if it was killed), 128 + signal after an interrupt, 1 when something could not be started.
int run_launch(const LaunchPlan& plan, bool keep_going, std::FILE* out, std::FILE* err);

}  // namespace tributary::cli

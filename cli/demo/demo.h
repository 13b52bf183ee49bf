// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary demo`: a real model trained through a real aggregator, four times: clean, with lost
/// packets, with a straggler, and with the straggler mitigated.
///
/// Threads: One. Installs signal handlers for SIGINT and SIGTERM while it runs.
/// Errors:  One line on standard error and exit status 1. Wrong sums and differing parameters are
///          errors too, but the table and the files are still written.
/// Output:  Progress and the table on standard output; demo.json and demo.svg in the output
///          directory.
/// Tests:   tests/cli/demo/demo_run_test.cc
#pragma once

#include "cli/demo/demo_config.h"

namespace tributary::demo {

/// Runs everything.
/// @return the exit status.
int run_demo(const DemoConfig& config);

}  // namespace tributary::demo

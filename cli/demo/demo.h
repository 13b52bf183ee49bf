// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary demo`: a real model trained through a real aggregator, four times: clean, with lost
/// packets, with a straggler, and with the straggler mitigated.
///
/// Threads: One. Signal handlers for SIGINT and SIGTERM are installed while it runs.
/// Errors:  One line on standard error, exit status 1. A wrong sum or parameters that differ are
///          errors, too; the table and files are written all the same.
/// Output:  Progress and the table on standard output; demo.json and demo.svg in the output
///          directory.
/// Tests:   tests/cli/demo/demo_run_test.cc
#pragma once

#include "cli/demo/demo_config.h"

namespace tributary::demo {

/// Runs everything; returns the exit status.
int run_demo(const DemoConfig& config);

}  // namespace tributary::demo

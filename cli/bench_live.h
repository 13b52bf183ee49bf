// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary bench parts` and `bench latency`: the live path part by part, and one block's way
/// over loopback, each beside a plain baseline.
///
/// Threads: One, at the start of the program.
/// Tests:   tests/bench/parts_bench_test.cc, latency_bench_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds both below `command`; they put their exit status into `exit_code`.
void add_live_benches(CLI::App& command, int& exit_code);

}  // namespace tributary::cli

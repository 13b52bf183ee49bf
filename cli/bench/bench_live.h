// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary bench parts` and `bench latency`: the live path part by part, and one block's round
/// trip over loopback, each against a plain baseline.
///
/// Threads: One, at the start of the program.
/// Tests:   tests/bench/parts_bench_test.cc, tests/bench/latency_bench_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds both benchmarks to `command`; they write their exit status to `exit_code`.
void add_live_benches(CLI::App& command, int& exit_code);

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a benchmark that ends with verdicts: progress, Ctrl-C, table, JSON and exit code.
///
/// Threads: The main thread. The first SIGINT, SIGTERM or SIGHUP ends the run at a good moment.
/// Errors:  Exit code kExitUsage if the run refuses its configuration, 1 if a verdict is missed or
///          the JSON cannot be written, kExitInterrupted after a signal.
#pragma once

#include <signal.h>

#include <atomic>
#include <string>

#include "bench/long_run.h"
#include "cli/bench/bench_flags.h"
#include "cli/console.h"
#include "cli/worker/worker_result.h"

namespace tributary::cli {

/// @param name The command under `tributary bench`.
/// @param run  Takes bench::LongRunHooks and returns a Result.
template <class Run>
int run_long_bench(const char* name, const std::string& json_path, Run run) {
  static std::atomic<bool> interrupted{false};
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted.store(true, std::memory_order_relaxed); };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  const auto result = run(bench::LongRunHooks{
      .progress =
          [name](const std::string& line) { print_error("tributary bench {}: {}\n", name, line); },
      // Relaxed: only a flag; no other data depends on it.
      .interrupted = [] { return interrupted.load(std::memory_order_relaxed); }});
  if (!result) {
    print_error("tributary bench {}: {}\n", name, result.error().text);
    return kExitUsage;
  }
  print("{}", as_table(*result));
  if (!write_bench_json(json_path, as_json(*result))) return 1;
  if (result->interrupted) return kExitInterrupted;
  return bench::all_hold(verdicts(*result)) ? 0 : 1;
}

}  // namespace tributary::cli

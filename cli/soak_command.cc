// SPDX-License-Identifier: Apache-2.0
#include "cli/soak_command.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "base/result_file.h"
#include "bench/race/systems.h"
#include "bench/soak/soak.h"
#include "cli/console.h"
#include "cli/settings.h"
#include "cli/worker_result.h"

namespace tributary::cli {
namespace {

struct SoakFlags {
  explicit SoakFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  soak::SoakConfig soak;
  std::string json_path;
};

std::atomic<bool> interrupted{false};

int run_soak(SoakFlags& flags) {
  flags.soak.tributary = race::find_programs().tributary;
  const auto refuse = [](const Error& error) {
    print_error("tributary bench soak: {}\n", error.text);
    return kExitUsage;
  };
  if (const auto checked = soak::check(flags.soak); !checked) return refuse(checked.error());
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted.store(true, std::memory_order_relaxed); };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  const soak::SoakHooks hooks{
      .progress = [](const std::string& line) { print_error("tributary bench soak: {}\n", line); },
      // Relaxed: only a flag; no other data depends on it.
      .interrupted = [] { return interrupted.load(std::memory_order_relaxed); }};
  const auto result = soak::run_soak(flags.soak, hooks);
  if (!result) return refuse(result.error());
  print("{}", soak::as_table(*result));
  if (!flags.json_path.empty()) {
    const auto written = write_result_file(flags.json_path, soak::as_json(*result).dump(2) + "\n");
    if (!written) {
      print_error("tributary bench soak: --json {}\n", written.error().text);
      return 1;
    }
  }
  if (result->interrupted) return kExitInterrupted;
  const auto verdicts = soak::verdicts(*result);
  return std::all_of(verdicts.begin(), verdicts.end(),
                     [](const soak::Verdict& verdict) { return verdict.holds; })
             ? 0
             : 1;
}

}  // namespace

void add_soak_command(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "soak", "Load a server to its capacity and beyond, while workers join and leave");
  const auto flags = std::make_shared<SoakFlags>(*command);
  add_uint(*command, "--seconds", flags->soak.seconds, 1, 1'000'000,
           "Approximate length of the run");
  add_uint(*command, "--jobs", flags->soak.jobs, 1, 64,
           "Jobs at capacity; the overload has twice as many");
  add_uint(*command, "--workers", flags->soak.workers, 2, 16, "Workers in each job");
  add_uint(*command, "--bytes", flags->soak.bytes, 4, 100'000'000, "Bytes of each tensor");
  add_uint(*command, "--phase-ms", flags->soak.phase_ms, 100, 3'600'000,
           "Length of a phase; two make a cycle");
  command->add_flag_callback(
      "--single-packets", [flags] { flags->soak.trains = false; },
      "Send each packet by itself instead of in trains; slower, but then the kernel's drop count "
      "is "
      "in packets");
  command->add_option("--json", flags->json_path, "Write the result to this file")
      ->type_name("FILE");
  command->callback([flags, &exit_code] { exit_code = run_soak(*flags); });
}

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/soak_command.h"

#include <memory>
#include <string>

#include "bench/race/systems.h"
#include "bench/soak/soak.h"
#include "cli/bench/long_bench.h"
#include "cli/settings.h"

namespace tributary::cli {
namespace {

struct SoakFlags {
  explicit SoakFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  soak::SoakConfig soak;
  std::string json_path;
};

int run(SoakFlags& flags) {
  flags.soak.tributary = race::find_programs().tributary;
  return run_long_bench("soak", flags.json_path, [&](const bench::LongRunHooks& hooks) {
    return soak::run_soak(flags.soak, hooks);
  });
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
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli

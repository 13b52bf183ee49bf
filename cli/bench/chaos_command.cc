// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/chaos_command.h"

#include <memory>
#include <string>
#include <vector>

#include "bench/chaos/chaos.h"
#include "bench/race/systems.h"
#include "cli/bench/long_bench.h"
#include "cli/settings.h"

namespace tributary::cli {
namespace {

struct ChaosFlags {
  explicit ChaosFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  chaos::ChaosConfig chaos;
  std::vector<std::string> faults;
  std::string json_path;
};

int run(ChaosFlags& flags) {
  flags.chaos.tributary = race::find_programs().tributary;
  if (!flags.faults.empty()) {
    flags.chaos.kinds.clear();
    for (const std::string& name : flags.faults) {
      flags.chaos.kinds.push_back(*chaos::parse_fault_kind(name));  // CLI11 has checked it.
    }
  }
  return run_long_bench("chaos", flags.json_path, [&](const bench::LongRunHooks& hooks) {
    return chaos::run_chaos(flags.chaos, hooks);
  });
}

}  // namespace

void add_chaos_command(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "chaos",
      "Kill, pause and restart real servers and workers, drop packets and let strangers attack");
  const auto flags = std::make_shared<ChaosFlags>(*command);
  chaos::ChaosConfig& chaos = flags->chaos;
  add_uint(*command, "--seconds", chaos.seconds, 1, 1'000'000, "Approximate length of the run");
  add_uint(*command, "--seed", chaos.seed, 0, INT64_MAX,
           "Seed of the faults and of the attackers' packets");
  add_uint(*command, "--workers", chaos.workers, 2, 16, "Workers of the job");
  add_uint(*command, "--elements", chaos.elements, 1, 10'000'000, "Length of each tensor");
  add_uint(*command, "--deadline-s", chaos.deadline_s, 5, 3600, "Deadline of each worker");
  add_auth(*command, chaos.auth, "Authentication of the job");
  add_uint(*command, "--forged-per-s", chaos.forged_per_s, 0, 1'000'000,
           "Forged messages a second, to the server and the workers");
  add_uint(*command, "--flooded-per-s", chaos.flooded_per_s, 0, 1'000'000,
           "Junk packets a second, to the server");
  command
      ->add_option("--network", chaos.network,
                   "lo: the loopback; netns: network namespaces (needs root and iproute2); auto: "
                   "netns where possible")
      ->check(CLI::IsMember({"auto", "lo", "netns"}))
      ->capture_default_str();
  std::vector<std::string> names;
  for (const chaos::FaultKind kind : chaos::all_fault_kinds()) names.push_back(to_string(kind));
  command->add_option("--faults", flags->faults, "Kinds of faults; default: all")
      ->check(CLI::IsMember(names))
      ->delimiter(',');
  command->add_option("--json", flags->json_path, "Write the result to this file")
      ->type_name("FILE");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli

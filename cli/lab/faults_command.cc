// SPDX-License-Identifier: Apache-2.0
// The command `tributary lab faults`.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/faults.h"
#include "cli/lab/lab_command.h"
#include "cli/lab/options.h"
#include "cli/lab/program_faults.h"
#include "cli/lab/progress.h"
#include "cli/settings.h"
#include "programs/program.h"

namespace tributary::cli {
namespace {

constexpr const char* kName = "tributary lab faults";
/// The number of runs with --quick.
constexpr uint64_t kQuickSeeds = 100;
constexpr uint64_t kSeedsMax = 100'000'000;
/// Largest first seed; the last seed has 63 bits, too.
constexpr uint64_t kSeedMax = INT64_MAX - kSeedsMax;

struct FaultsFlags {
  uint64_t seeds = 1000;
  uint64_t first_seed = 1;
  std::optional<uint64_t> seed = {};  ///< Seed of the only run; not set: a campaign.
  bool trace = false;
  bool quick = false;
  bool mutants = false;
  uint32_t threads = 0;
  lab::PlanShape shape;
  std::vector<std::string> only;
  std::vector<std::string> mutant_names;
  std::string json_path;
  std::string program;  ///< A packet program; empty: aggregation.
};

volatile std::sig_atomic_t g_interrupted = 0;

Result<lab::FaultKinds> kinds_of(const std::vector<std::string>& names) {
  if (names.empty()) return lab::FaultKinds::all();
  lab::FaultKinds kinds;
  for (const std::string& name : names) {
    if (name == "none") continue;
    const auto kind = lab::fault_kind(name);
    if (!kind) {
      return failure(fmt::format("--only {} is not allowed; allowed: none or some of {}", name,
                                 lab::FaultKinds::all().to_string()));
    }
    kinds.add(*kind);
  }
  return kinds;
}

uint32_t thread_count(const FaultsFlags& flags) {
  return flags.threads != 0 ? flags.threads : std::max(1U, std::thread::hardware_concurrency());
}

int write_json(const FaultsFlags& flags, const nlohmann::ordered_json& json) {
  if (flags.json_path.empty()) return 0;
  const auto written = write_result_file(flags.json_path, json.dump(2) + "\n");
  return written ? 0 : complain(kName, written.error().text, 1);
}

/// Runs one seed and prints its trace.
int run_one(const FaultsFlags& flags, lab::FaultKinds kinds) {
  const lab::FaultPlan plan = lab::draw_plan(*flags.seed, kinds, flags.shape);
  const lab::FaultResult result = run_faults(plan, flags.trace);
  print("seed {}: {}\n", plan.seed, describe(plan));
  for (const std::string& line : result.trace) print("{}\n", line);
  for (uint32_t i = 0; i < lab::kBreachKinds; i++) {
    for (const std::string& line : result.breaches[i]) {
      print("*** {}: {}\n", lab::kBreachNames[i], line);
    }
  }
  if (result.spoiled_sums + result.overtaken_stalls > 0) {
    print("packets that came after a later use of their slot: {} sums spoiled, {} stalls\n",
          result.spoiled_sums, result.overtaken_stalls);
  }
  print("{} packets, {:.1f} s of virtual time, digest {:016x}: {}\n", result.packets,
        in_seconds(result.length), result.digest,
        result.is_good() ? "no promise broken" : "BROKEN");
  return result.is_good() ? 0 : 1;
}

int run_all(const FaultsFlags& flags, lab::FaultKinds kinds) {
  std::optional<LabProgress> progress(std::in_place);
  lab::CampaignConfig config;
  config.first_seed = flags.first_seed;
  config.seeds = flags.quick ? std::min(flags.seeds, kQuickSeeds) : flags.seeds;
  config.threads = thread_count(flags);
  config.only = kinds;
  config.shape = flags.shape;
  config.on_progress = [&](uint64_t over) { progress->update(over, config.seeds); };
  config.is_stopped = [] { return g_interrupted != 0; };
  std::signal(SIGINT, [](int) { g_interrupted = 1; });
  const std::clock_t began_at = std::clock();
  const lab::CampaignReport report = run_campaign(config);
  progress.reset();
  // Count CPU time of all threads, so that the rate per core does not depend on the machine's load.
  const double cpu_s = static_cast<double>(std::clock() - began_at) / CLOCKS_PER_SEC;
  std::signal(SIGINT, SIG_DFL);
  const double per_core = cpu_s > 0 ? static_cast<double>(report.seeds) / cpu_s : 0;
  print("{}", as_text(report, per_core));
  if (const int failed = write_json(flags, as_json(report, per_core)); failed != 0) return failed;
  if (g_interrupted != 0) return complain(kName, "interrupted", 130);
  return report.is_good() ? 0 : 1;
}

int run_planted(const FaultsFlags& flags) {
  const auto rows = run_mutants({.first_seed = flags.first_seed,
                                 .seeds = flags.seeds,
                                 .processes = thread_count(flags),
                                 .names = flags.mutant_names});
  if (!rows) return complain(kName, rows.error().text, 1);
  print("{}", as_text(*rows));
  if (const int failed = write_json(flags, as_json(*rows)); failed != 0) return failed;
  const auto missed =
      std::count_if(rows->begin(), rows->end(), [](const MutantRow& row) { return !row.caught; });
  // One mutant in twenty may need more seeds.
  return missed * 20 <= static_cast<std::ptrdiff_t>(rows->size()) ? 0 : 1;
}

int run_program(const FaultsFlags& flags) {
  std::optional<LabProgress> progress(std::in_place);
  const uint64_t seeds = flags.quick ? std::min(flags.seeds, kQuickSeeds) : flags.seeds;
  lab::ProgramCampaign campaign{.first_seed = flags.seed.value_or(flags.first_seed),
                                .seeds = flags.seed ? 1 : seeds,
                                .threads = thread_count(flags),
                                .on_progress = {}};
  campaign.on_progress = [&](uint64_t over) { progress->update(over, campaign.seeds); };
  const auto report = run_program_campaign(*programs::find_program(flags.program), campaign);
  progress.reset();
  if (!report) return complain(kName, report.error().text, 1);
  print("{}", as_text(flags.program, *report));
  if (const int failed = write_json(flags, as_json(flags.program, *report)); failed != 0) {
    return failed;
  }
  return report->failed_seeds == 0 ? 0 : 1;
}

Result<void> check_program(const FaultsFlags& flags) {
  const bool has_others = flags.shape.attackers || flags.shape.sharded || flags.mutants ||
                          !flags.only.empty() || !flags.mutant_names.empty() || flags.trace ||
                          flags.shape.protocol != wire::Protocol::kTrioMl;
  if (!has_others) return {};
  return failure(
      "--program is allowed with --seeds, --first-seed, --seed, --threads, --quick and --json "
      "only");
}

Result<void> check(const lab::PlanShape& shape) {
  if (shape.attackers && shape.sharded) {
    return failure("--attackers is not allowed with --sharded; leave out one of the two");
  }
  if (shape.protocol == wire::Protocol::kTrioMl) return {};
  if (shape.attackers) {
    return failure(
        fmt::format("--attackers is not allowed with --protocol {}, whose packets have "
                    "no key; leave out one of the two",
                    to_string(shape.protocol)));
  }
  if (shape.sharded) {
    return failure(
        fmt::format("--sharded is not allowed with --protocol {}, whose jobs have one "
                    "switch; leave out one of the two",
                    to_string(shape.protocol)));
  }
  return {};
}

int run(const FaultsFlags& flags) {
  if (!flags.program.empty()) {
    if (const auto allowed = check_program(flags); !allowed) {
      return complain(kName, allowed.error().text, 2);
    }
    return run_program(flags);
  }
  if (flags.mutants) return run_planted(flags);
  if (const auto allowed = check(flags.shape); !allowed) {
    return complain(kName, allowed.error().text, 2);
  }
  const auto kinds = kinds_of(flags.only);
  if (!kinds) return complain(kName, kinds.error().text, 2);
  return flags.seed ? run_one(flags, *kinds) : run_all(flags, *kinds);
}

}  // namespace

void add_lab_faults(CLI::App& lab, int& exit_code) {
  CLI::App* command =
      lab.add_subcommand("faults", "Run jobs under random faults and check every promise");
  const auto flags = std::make_shared<FaultsFlags>();
  CLI::Option* seeds = add_uint(*command, "--seeds", flags->seeds, 1, kSeedsMax,
                                "Runs; with --mutants: of each, at most");
  CLI::Option* first_seed =
      add_uint(*command, "--first-seed", flags->first_seed, 0, kSeedMax, "Seed of the first run");
  CLI::Option* seed =
      add_key(*command, "--seed", {.type = KeyType::kUint, .max = kSeedMax}, "", "This run alone",
              [flags](const KeyValue& value) { flags->seed = std::get<uint64_t>(value); });
  seed->excludes(seeds)->excludes(first_seed);
  command->add_flag("--trace", flags->trace, "Print the events of the run")->needs(seed);
  add_protocol(*command, flags->shape.protocol, "Protocol of the workers");
  std::vector<std::string> names;
  for (const programs::Program& program : programs::programs()) names.emplace_back(program.name);
  command
      ->add_option("--program", flags->program,
                   "Test this packet program over a faulty wire instead of aggregation")
      ->check(CLI::IsMember(names));
  command->add_flag(
      "--attackers", flags->shape.attackers,
      "Trio-ML: also attackers, authentication, plain clients, groups, unequal servers");
  command->add_flag("--sharded", flags->shape.sharded,
                    "Trio-ML: jobs on several aggregators each; faults hit single ones");
  command->add_option("--only", flags->only, "Allow only these kinds of faults, or none")
      ->delimiter(',');
  add_threads_flag(*command, flags->threads, "0: as many as cores");
  command->add_flag("--quick", flags->quick, "At most 100 runs");
  command->add_flag("--mutants", flags->mutants, "Plant bugs, and say which ones are found");
  command->add_option("--mutant", flags->mutant_names, "With --mutants: this bug; repeatable")
      ->needs("--mutants");
  command->add_option("--json", flags->json_path, "Write the report to this file")
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  tributary lab faults --seeds 1000 --json faults.json\n"
      "  tributary lab faults --seeds 3000 --attackers --json attacks.json\n"
      "  tributary lab faults --seeds 1000 --sharded --json shards.json\n"
      "  tributary lab faults --seed 17 --only loss,worker_crash --trace\n"
      "  tributary lab faults --protocol switchml --only loss,duplication\n"
      "  tributary lab faults --program telemetry --seeds 1000\n"
      "  tributary lab faults --mutants");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
// `tributary lab run`: one scenario.
#include "lab/run.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/lab_command.h"
#include "cli/lab/options.h"
#include "cli/lab/run_progress.h"
#include "cli/settings.h"
#include "lab/scenario_file.h"
#include "lab/sweep/run_json.h"
#include "lab/sweep/run_text.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab run";

struct RunFlags {
  std::string scenario_path;
  std::vector<WrittenKey> settings;
  std::vector<std::string> captures;
  std::string json_path;
  bool show = false;
};

/// Reads the scenario. Links after --pcap replace the scenario's captures.
Result<lab::Scenario> scenario_of(const RunFlags& flags) {
  auto scenario = read_scenario(flags.scenario_path, flags.settings);
  if (!scenario || flags.captures.empty()) return scenario;
  scenario->captures.clear();
  for (const std::string& text : flags.captures) {
    const auto captures = lab::parse_captures(text);
    if (!captures) {
      return failure(fmt::format("--pcap: '{}' {}", text, captures.error().text));
    }
    scenario->captures.insert(scenario->captures.end(), captures->begin(), captures->end());
  }
  return scenario;
}

/// Returns the scenario as JSON, key by key, for the file of results.
lab::Json scenario_json(const lab::Scenario& scenario) {
  lab::Json json = lab::Json::object();
  for (const lab::ScenarioKey& key : lab::scenario_keys()) {
    json[std::string(key.spec.name)] = key.show(scenario);
  }
  return json;
}

/// Returns a warning if links lost whole trains; empty if not.
std::string train_warning(const lab::Scenario& scenario, const lab::RunResult& result) {
  uint64_t lost = 0;
  for (const lab::LinkResult& link : result.links) lost += link.lost;
  if (scenario.train == 1 || lost == 0) return "";
  return fmt::format(
      "links lost {} packets in trains of {}, and workers repaired a train at a time; train=1 "
      "repairs packet by packet",
      lost, scenario.train);
}

int run_one(const RunFlags& flags) {
  const Result<lab::Scenario> scenario = scenario_of(flags);
  if (!scenario) return complain(kCommand, scenario.error().text, kExitUsage);
  if (flags.show) {
    print("{}", lab::scenario_text(*scenario));
    return 0;
  }
  const Result<lab::RunResult> result = [&scenario] {
    RunProgress progress;
    return lab::run_scenario(*scenario, nullptr, progress.observer());
  }();
  if (!result) return complain(kCommand, result.error().text, 1);
  print("{}", lab::run_text(*result));
  if (const std::string text = train_warning(*scenario, *result); !text.empty()) {
    print_error("{}: warning: {}\n", kCommand, text);
  }
  if (!flags.json_path.empty()) {
    const lab::Json json{{"scenario", scenario_json(*scenario)},
                         {"result", lab::run_json(*result)}};
    if (const auto written = write_result_file(flags.json_path, json.dump(2) + "\n"); !written) {
      return complain(kCommand, written.error().text, 1);
    }
  }
  if (result->wrong_sums != 0) {
    return complain(kCommand, fmt::format("{} sums are wrong", result->wrong_sums), 1);
  }
  return 0;
}

}  // namespace

void add_lab_run(CLI::App& lab, int& exit_code) {
  CLI::App* command = lab.add_subcommand("run", "One scenario: a cluster, a network, stragglers");
  const auto flags = std::make_shared<RunFlags>();
  command->add_option("scenario", flags->scenario_path, "TOML file; without it the paper's set-up")
      ->type_name("FILE");
  command->add_option("--json", flags->json_path, "Write scenario and result to this file")
      ->type_name("FILE");
  command->add_option("--pcap", flags->captures, "Write a link's traffic to a file; repeatable")
      ->type_name("LINK=FILE")
      ->allow_extra_args(false);
  command->add_flag("--show", flags->show, "Print the whole scenario instead of running it");
  add_scenario_flags(*command, flags->settings);
  command->footer(
      "Examples:\n"
      "  tributary lab run experiments/slow_worker.toml --json r.json\n"
      "  tributary lab run --model.name vgg11 --iterations 10 --train 32\n"
      "  tributary lab run --iterations 1 --train 32 --pcap 'worker-0.0>switch.0=w0.pcap'");
  command->callback([flags, &exit_code] { exit_code = run_one(*flags); });
}

}  // namespace tributary::cli

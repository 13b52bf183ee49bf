// SPDX-License-Identifier: Apache-2.0
// `tributary lab run`: one scenario, or several jobs in one network.
#include "lab/run.h"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/lab_command.h"
#include "cli/lab/options.h"
#include "cli/lab/run_progress.h"
#include "cli/settings.h"
#include "lab/report/svg_plot.h"
#include "lab/scenario_file.h"
#include "lab/shared_run.h"
#include "lab/shared_scenario_file.h"
#include "lab/sweep/model_digest.h"
#include "lab/sweep/run_json.h"
#include "lab/sweep/run_text.h"
#include "lab/sweep/shared_output.h"
#include "lab/workload/straggler.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab run";

struct RunFlags {
  std::string scenario_path;
  std::vector<WrittenKey> settings;
  std::vector<std::string> captures;
  std::string json_path;
  std::string svg_path;
  bool show = false;
  bool no_alone = false;
  uint32_t threads = 0;
};

/// Replaces the scenario's captures by the links after --pcap, if there are any.
Result<void> set_captures(const RunFlags& flags, lab::Scenario& scenario) {
  if (flags.captures.empty()) return {};
  scenario.captures.clear();
  for (const std::string& text : flags.captures) {
    const auto captures = lab::parse_captures(text);
    if (!captures) {
      return failure(fmt::format("--pcap: '{}' {}", text, captures.error().text));
    }
    scenario.captures.insert(scenario.captures.end(), captures->begin(), captures->end());
  }
  return {};
}

Result<lab::Scenario> scenario_of(const RunFlags& flags) {
  auto scenario = read_scenario(flags.scenario_path, flags.settings);
  if (!scenario) return scenario;
  if (const auto set = set_captures(flags, *scenario); !set) return tl::unexpected(set.error());
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

void print_warnings(std::span<const std::string> warnings) {
  for (const std::string& text : warnings) print_error("{}: warning: {}\n", kCommand, text);
}

/// Writes the files that the flags name. @param json Called only if there is a file for it.
template <class F>
Result<void> write_files(const RunFlags& flags, std::span<const lab::JobResult> jobs, F&& json) {
  if (!flags.json_path.empty()) {
    auto written = write_result_file(flags.json_path, json().dump(2) + "\n");
    if (!written) return written;
  }
  if (flags.svg_path.empty()) return {};
  return write_result_file(flags.svg_path, lab::render_svg(lab::iterations_plot(jobs)));
}

/// Checks before the run that the files of the captures can be written.
Result<void> check_captures(const lab::Scenario& scenario) {
  for (const lab::Scenario::Capture& capture : scenario.captures) {
    if (const auto writable = check_result_file(capture.path); !writable) {
      return failure("--pcap " + writable.error().text);
    }
  }
  return {};
}

/// Runs the jobs of a file with [[job]].
int run_jobs(const RunFlags& flags) {
  auto scenario = lab::read_shared_scenario(flags.scenario_path, flags.settings);
  if (!scenario) return complain(kCommand, scenario.error().text, kExitUsage);
  if (const auto set = set_captures(flags, scenario->network); !set) {
    return complain(kCommand, set.error().text, kExitUsage);
  }
  for (const lab::SharedJob& job : scenario->jobs) {
    if (const auto good = lab::check_trace(job.scenario); !good) {
      return complain(kCommand, fmt::format("job '{}': {}", job.name, good.error().text),
                      kExitUsage);
    }
  }
  if (flags.show) {
    print("{}", lab::shared_scenario_text(*scenario));
    return 0;
  }
  if (const auto writable = check_captures(scenario->network); !writable) {
    return complain(kCommand, writable.error().text, kExitUsage);
  }
  const Result<lab::SharedResult> result = [&] {
    RunProgress progress;
    return lab::run_shared(
        *scenario,
        {.alone = !flags.no_alone, .threads = flags.threads, .observer = progress.observer()});
  }();
  if (!result) return complain(kCommand, result.error().text, 1);
  print("{}", lab::shared_text(*result));
  print_warnings(result->warnings);
  const auto written = write_files(flags, result->jobs, [&] {
    lab::Json network = scenario_json(scenario->network);
    lab::Json jobs = lab::Json::object();
    for (const lab::SharedJob& job : scenario->jobs) jobs[job.name] = scenario_json(job.scenario);
    return lab::Json{{"scenario", {{"network", std::move(network)}, {"jobs", std::move(jobs)}}},
                     {"model_digest", lab::model_digest()},
                     {"result", lab::shared_json(*result)}};
  });
  if (!written) return complain(kCommand, written.error().text, 1);
  uint64_t wrong_sums = 0;
  for (const lab::JobResult& job : result->jobs) wrong_sums += job.run.wrong_sums;
  if (wrong_sums == 0) return 0;
  return complain(kCommand, fmt::format("{} sums are wrong", wrong_sums), 1);
}

int run_one(const RunFlags& flags) {
  const Result<lab::Scenario> scenario = scenario_of(flags);
  if (!scenario) return complain(kCommand, scenario.error().text, kExitUsage);
  if (flags.show) {
    print("{}", lab::scenario_text(*scenario));
    return 0;
  }
  if (const auto writable = check_captures(*scenario); !writable) {
    return complain(kCommand, writable.error().text, kExitUsage);
  }
  const Result<lab::RunResult> result = [&scenario] {
    RunProgress progress;
    return lab::run_scenario(*scenario, nullptr, progress.observer());
  }();
  if (!result) return complain(kCommand, result.error().text, 1);
  print("{}", lab::run_text(*result));
  print_warnings(result->warnings);
  lab::JobResult job;
  job.name = "run";
  job.backend = scenario->backend;
  job.run = *result;
  const auto written = write_files(flags, {&job, 1}, [&] {
    return lab::Json{{"scenario", scenario_json(*scenario)},
                     {"model_digest", lab::model_digest()},
                     {"result", lab::run_json(*result)}};
  });
  if (!written) return complain(kCommand, written.error().text, 1);
  if (result->wrong_sums != 0) {
    return complain(kCommand, fmt::format("{} sums are wrong", result->wrong_sums), 1);
  }
  return 0;
}

int run_file(const RunFlags& flags) {
  if (flags.scenario_path.empty()) return run_one(flags);
  const Result<bool> several = lab::names_jobs(flags.scenario_path);
  if (!several) return complain(kCommand, several.error().text, kExitUsage);
  return *several ? run_jobs(flags) : run_one(flags);
}

}  // namespace

void add_lab_run(CLI::App& lab, int& exit_code) {
  CLI::App* command =
      lab.add_subcommand("run", "Run one scenario: a network, one job or several, stragglers");
  const auto flags = std::make_shared<RunFlags>();
  command->add_option("scenario", flags->scenario_path, "TOML file; without it the paper's set-up")
      ->type_name("FILE");
  command->add_option("--json", flags->json_path, "Write scenario and result to this file")
      ->type_name("FILE");
  command->add_option("--pcap", flags->captures, "Write a link's traffic to a file; repeatable")
      ->type_name("LINK=FILE")
      ->allow_extra_args(false);
  command->add_option("--svg", flags->svg_path, "Draw the times of the iterations")
      ->type_name("FILE");
  command->add_flag("--no-alone", flags->no_alone,
                    "Several jobs: do not run each of them alone, too");
  add_threads_flag(*command, flags->threads,
                   "Several jobs: runs at the same time; 0: as many as cores");
  command->add_flag("--show", flags->show, "Print the whole scenario instead of running it");
  add_scenario_flags(*command, flags->settings);
  command->footer(
      "Examples:\n"
      "  tributary lab run experiments/slow_worker.toml --json r.json\n"
      "  tributary lab run experiments/shared_network.toml --svg jobs.svg\n"
      "  tributary lab run --model.name vgg11 --iterations 10 --train 32\n"
      "  tributary lab run --iterations 1 --train 32 --pcap 'worker-0.0>switch.0=w0.pcap'");
  command->callback([flags, &exit_code] { exit_code = run_file(*flags); });
}

}  // namespace tributary::cli

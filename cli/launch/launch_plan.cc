// SPDX-License-Identifier: Apache-2.0
#include "cli/launch/launch_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "auth/secret.h"
#include "base/number_text.h"
#include "cli/launch/aggregator_plan.h"
#include "host/worker_config.h"
#include "wire/trio_ml.h"

namespace tributary::cli {
namespace {

constexpr uint16_t kMasterPort = 29'500;  // torch.distributed's default.
constexpr std::string_view kRunner = "tributary.run";

bool is_set(const HostFacts& facts, std::string_view name) {
  return std::find(facts.variables_set.begin(), facts.variables_set.end(), name) !=
         facts.variables_set.end();
}

/// Finds a program for execve(): a path stays as it is, a bare name is searched for.
Result<std::string> find_program(const std::string& name, const std::string& search_path) {
  if (name.find('/') != std::string::npos) return name;
  size_t begin = 0;
  while (begin <= search_path.size()) {
    const size_t end = std::min(search_path.find(':', begin), search_path.size());
    const std::string path = search_path.substr(begin, end - begin) + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
    begin = end + 1;
  }
  return failure(
      fmt::format("'{}' is not in PATH; allowed: a program, a path or a .py file", name));
}

bool is_python_script(const std::string& name) { return name.ends_with(".py"); }

/// Returns the variables that all ranks share.
std::vector<std::string> shared_environment(const LaunchConfig& config, const HostFacts& facts,
                                            const Ranks& ranks) {
  std::vector<std::string> variables{
      fmt::format("WORLD_SIZE={}", ranks.world),
      fmt::format("LOCAL_WORLD_SIZE={}", config.processes),
      fmt::format("TRIBUTARY_BACKEND={}", config.backend),
  };
  if (ranks.master.empty()) {
    variables.push_back("MASTER_ADDR=127.0.0.1");
    variables.push_back(fmt::format("MASTER_PORT={}", facts.master_port));
  } else {
    const size_t colon = ranks.master.rfind(':');
    std::string host = ranks.master.substr(0, colon);
    // torch resolves the address as it stands, so an IPv6 address must not have brackets.
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    variables.push_back("MASTER_ADDR=" + host);
    variables.push_back("MASTER_PORT=" + ranks.master.substr(colon + 1));
  }
  if (!facts.library.empty() && !is_set(facts, "TRIBUTARY_LIBRARY")) {
    variables.push_back("TRIBUTARY_LIBRARY=" + facts.library);
  }
  // A package of the user's own comes first, as TRIBUTARY_LIBRARY does.
  if (!facts.python_package.empty()) {
    variables.push_back("PYTHONPATH=" + (facts.python_path.empty() ? "" : facts.python_path + ":") +
                        facts.python_package);
  }
  // Ranks share the cores. Without this, each would start a thread for every core.
  if (!is_set(facts, "OMP_NUM_THREADS")) variables.push_back("OMP_NUM_THREADS=1");
  // Show lines as they are printed, although standard output is a pipe.
  if (!is_set(facts, "PYTHONUNBUFFERED")) variables.push_back("PYTHONUNBUFFERED=1");
  return variables;
}

std::string url_of(const LaunchConfig& config, const Aggregators& aggregators, uint32_t local) {
  std::vector<std::string> options;
  if (config.deadline) {
    options.push_back(fmt::format("deadline_ms={}", in_milliseconds(*config.deadline)));
  }
  // The launchers of the machines start at different times.
  if (!config.machines.workers.empty()) {
    const Duration wait = config.deadline.value_or(host::kDeadlineDefault);
    options.push_back(fmt::format("server_wait_ms={}", in_milliseconds(wait)));
  }
  if (aggregators.reduce_locally) options.push_back(fmt::format("source={}", local));
  if (config.auth != auth::Mode::kNone) {
    options.push_back(fmt::format("auth={}", to_string(config.auth)));
  }
  options.insert(options.end(), config.url_options.begin(), config.url_options.end());
  return fmt::format("tributary://{}/job/{}{}{}", aggregators.list, config.job_id,
                     options.empty() ? "" : "?", fmt::join(options, "&"));
}

/// The command of a Python interpreter. It runs through tributary.run, which registers the back
/// end.
struct PythonCommand {
  std::string interpreter;
  std::vector<std::string> flags;   ///< Arguments of the interpreter.
  std::vector<std::string> target;  ///< A script, or -m and a module, and its arguments.
};

/// Returns true for python, python3, python3.11 and paths to them.
bool is_interpreter(const std::string& name) {
  constexpr std::string_view kName = "python";
  const std::string base = std::filesystem::path(name).filename();
  return base.starts_with(kName) &&
         base.find_first_not_of("0123456789.", kName.size()) == std::string::npos;
}

/// Splits the arguments of an interpreter. Returns none if it runs neither a script nor a module.
std::optional<PythonCommand> split_interpreter(const std::vector<std::string>& command) {
  size_t begin = 1;
  while (begin < command.size() && command[begin].starts_with('-') && command[begin] != "-m") {
    if (command[begin] == "-c" || command[begin] == "-") return std::nullopt;
    begin += command[begin] == "-W" || command[begin] == "-X" ? 2 : 1;  // These have a value.
  }
  const size_t name = begin + (begin < command.size() && command[begin] == "-m" ? 1 : 0);
  if (name >= command.size() || command[name] == kRunner) return std::nullopt;
  const auto at = command.begin() + static_cast<ptrdiff_t>(begin);
  return PythonCommand{.interpreter = command.front(),
                       .flags = {command.begin() + 1, at},
                       .target = {at, command.end()}};
}

/// Splits the command into interpreter, flags and script or module; none for any other program.
Result<std::optional<PythonCommand>> python_command(const LaunchConfig& config,
                                                    const HostFacts& facts) {
  const std::string& name = config.command.front();
  std::optional<PythonCommand> python;
  if (name == "-m" || is_python_script(name)) {
    if (name == "-m" && config.command.size() == 1) {
      return failure("-m has no module; allowed: -m PACKAGE.MODULE, as in -m project.train");
    }
    auto interpreter = interpreter_of(name, config.python, facts.search_path);
    if (!interpreter) return tl::unexpected(interpreter.error());
    python = PythonCommand{
        .interpreter = *std::move(interpreter), .flags = {}, .target = config.command};
  } else if (is_interpreter(name)) {
    python = split_interpreter(config.command);
    if (!python) return python;
    auto interpreter = find_program(name, facts.search_path);
    if (!interpreter) return tl::unexpected(interpreter.error());
    python->interpreter = *std::move(interpreter);
  }
  if (python && python->target.front() != "-m" &&
      access(python->target.front().c_str(), R_OK) != 0) {
    return failure(fmt::format("'{}' cannot be read; allowed: a program or a .py file",
                               python->target.front()));
  }
  return python;
}

/// Plans the program and its arguments, the same for all ranks.
Result<ProgramPlan> plan_command(const LaunchConfig& config, const HostFacts& facts,
                                 const std::optional<PythonCommand>& python) {
  ProgramPlan plan;
  if (python) {
    plan.program = python->interpreter;
    plan.arguments = python->flags;
    plan.arguments.insert(plan.arguments.end(), {"-m", std::string(kRunner)});
    plan.arguments.insert(plan.arguments.end(), python->target.begin(), python->target.end());
    return plan;
  }
  auto program = find_program(config.command.front(), facts.search_path);
  if (!program) return tl::unexpected(program.error());
  plan.program = std::move(*program);
  plan.arguments.assign(config.command.begin() + 1, config.command.end());
  return plan;
}

/// Returns true if HOST:PORT has a port. torch would end in a traceback of each rank otherwise.
bool has_port(const std::string& master) {
  const size_t colon = master.rfind(':');
  if (colon == std::string::npos) return false;
  return parse_number<uint16_t>(master.substr(colon + 1)).value_or(0) != 0;
}

Result<void> check(const LaunchConfig& config, const HostFacts& facts, const Ranks& ranks) {
  if (ranks.first + config.processes > ranks.world) {
    return failure(
        fmt::format("--first-rank {} and -n {} reach beyond --world {}; allowed: a sum "
                    "of at most --world",
                    ranks.first, config.processes, ranks.world));
  }
  const bool several_machines = spans_machines(config, ranks);
  if (several_machines && ranks.master.empty()) {
    return failure("--master is missing; with --world, give HOST:PORT of rank 0's machine");
  }
  if (!ranks.master.empty() && !has_port(ranks.master)) {
    return failure(fmt::format(
        "--master {} has no port; allowed: HOST:PORT, with a port from 1 to 65535", ranks.master));
  }
  if (config.backend != kOwnBackend || !config.server.empty() || !several_machines) return {};
  if (config.machines.workers.empty()) {
    return failure(
        "--server is missing; ranks on several machines need a running appliance, or --aggregators "
        "colocated --workers LIST");
  }
  if (config.auth != auth::Mode::kNone && !is_set(facts, auth::kSecretVariable)) {
    return failure(
        fmt::format("--auth {} on several machines needs the same secret on all of them; set {}",
                    to_string(config.auth), auth::kSecretVariable));
  }
  return {};
}

/// Places the ranks of this machine among all.
Result<Ranks> place_ranks(const LaunchConfig& config) {
  if (const auto good = check_aggregators(config); !good) return tl::unexpected(good.error());
  if (config.machines.workers.empty()) {
    return Ranks{.world = config.world == 0 ? config.processes : config.world,
                 .first = config.rank_first,
                 .master = config.master};
  }
  const auto all = read_plan_machines(config.machines);
  if (!all) return tl::unexpected(all.error());
  const auto workers = static_cast<uint32_t>(
      std::count_if(all->machines.begin(), all->machines.end(),
                    [](const plan::Machine& machine) { return machine.worker; }));
  if (config.node_rank >= workers) {
    return failure(
        fmt::format("--node-rank {} is not allowed; --workers lists {} machines: 0 to {}",
                    config.node_rank, workers, workers - 1));
  }
  if (workers * config.processes > wire::kSourcesMax) {
    return failure(fmt::format("-n {} on each of {} machines are more than {} ranks",
                               config.processes, workers, wire::kSourcesMax));
  }
  const std::string& host = all->machines.front().name;
  return Ranks{
      .world = workers * config.processes,
      .first = config.node_rank * config.processes,
      .master = config.master.empty() ? fmt::format("{}:{}", host, kMasterPort) : config.master};
}

/// Returns the CPUs that --aggregator-cpus leaves for the ranks; none without that flag.
Result<std::vector<int>> cpus_for_ranks(const LaunchConfig& config, const HostFacts& facts) {
  std::vector<int> rest;
  const auto taken = aggregator_cpus(config, facts);
  if (!taken) return tl::unexpected(taken.error());
  if (taken->empty()) return rest;
  for (const int cpu : facts.cpus) {
    if (std::find(taken->begin(), taken->end(), cpu) == taken->end()) rest.push_back(cpu);
  }
  if (!rest.empty()) return rest;
  return failure(fmt::format("--aggregator-cpus {} leaves no CPU for the ranks; allowed: fewer",
                             config.aggregator_cpus));
}

}  // namespace

Result<std::string> interpreter_of(const std::string& script, const std::string& python,
                                   const std::string& search_path) {
  if (!python.empty()) return find_program(python, search_path);
  std::string line;
  std::ifstream file(script);
  std::getline(file, line);
  if (line.starts_with("#!")) {
    line.erase(0, line.find_first_not_of(' ', 2));
    const std::string program = line.substr(0, line.find(' '));
    const std::string rest = line.size() > program.size() ? line.substr(program.size() + 1) : "";
    const std::string base = std::filesystem::path(program).filename();
    if (base == "env" && rest.starts_with("python")) return find_program(rest, search_path);
    if (base.starts_with("python")) return program;
  }
  return find_program("python3", search_path);
}

Result<LaunchPlan> plan_launch(const LaunchConfig& config, const HostFacts& facts) {
  const auto ranks = place_ranks(config);
  if (!ranks) return tl::unexpected(ranks.error());
  if (const auto good = check(config, facts, *ranks); !good) return tl::unexpected(good.error());
  auto aggregators = plan_aggregators(config, facts, *ranks);
  if (!aggregators) return tl::unexpected(aggregators.error());
  const auto python = python_command(config, facts);
  if (!python) return tl::unexpected(python.error());
  const auto command = plan_command(config, facts, *python);
  if (!command) return tl::unexpected(command.error());

  auto rank_cpus = cpus_for_ranks(config, facts);
  if (!rank_cpus) return tl::unexpected(rank_cpus.error());

  LaunchPlan plan{.check = {},
                  .aggregators = std::move(aggregators->started),
                  .shares = static_cast<size_t>(1 + std::ranges::count(aggregators->list, ',')),
                  .aggregators_linger = spans_machines(config, *ranks) ? kLinger : kLinger * 0,
                  .ranks = {},
                  .rank_cpus = *std::move(rank_cpus)};
  std::vector<std::string> shared = shared_environment(config, facts, *ranks);
  if (!plan.aggregators.empty() && config.auth != auth::Mode::kNone &&
      !is_set(facts, auth::kSecretVariable)) {
    shared.push_back(fmt::format("{}={}", auth::kSecretVariable, facts.secret));
    for (ProgramPlan& one : plan.aggregators) one.environment.push_back(shared.back());
  }
  for (uint32_t local = 0; local < config.processes; local++) {
    ProgramPlan rank = *command;
    const uint32_t number = ranks->first + local;
    rank.name = fmt::format("rank {}", number);
    rank.environment = shared;
    rank.environment.push_back(fmt::format("RANK={}", number));
    rank.environment.push_back(fmt::format("LOCAL_RANK={}", local));
    if (!aggregators->list.empty()) {
      rank.environment.push_back("TRIBUTARY_URL=" + url_of(config, *aggregators, local));
    }
    plan.ranks.push_back(std::move(rank));
  }
  if (*python) {
    plan.check = plan.ranks.front();
    plan.check->name = "the check of the script";
    plan.check->arguments = {"-m", std::string(kRunner), "--check"};
    const std::vector<std::string>& target = (*python)->target;
    const auto end = target.begin() + (target.front() == "-m" ? 2 : 1);
    plan.check->arguments.insert(plan.check->arguments.end(), target.begin(), end);
  }
  return plan;
}

}  // namespace tributary::cli

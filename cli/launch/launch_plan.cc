// SPDX-License-Identifier: Apache-2.0
#include "cli/launch/launch_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "auth/secret.h"

namespace tributary::cli {
namespace {

constexpr const char* kOwnBackend = "tributary";

uint64_t in_milliseconds(Duration duration) {
  return static_cast<uint64_t>(in_nanoseconds(duration) / 1'000'000);
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
std::vector<std::string> shared_environment(const LaunchConfig& config,
                                            const LaunchSurroundings& around, uint32_t world) {
  const auto is_set = [&around](std::string_view name) {
    return std::find(around.variables_set.begin(), around.variables_set.end(), name) !=
           around.variables_set.end();
  };
  std::vector<std::string> variables{
      fmt::format("WORLD_SIZE={}", world),
      fmt::format("LOCAL_WORLD_SIZE={}", config.processes),
      fmt::format("TRIBUTARY_BACKEND={}", config.backend),
  };
  if (config.master.empty()) {
    variables.push_back("MASTER_ADDR=127.0.0.1");
    variables.push_back(fmt::format("MASTER_PORT={}", around.master_port));
  } else {
    const size_t colon = config.master.rfind(':');
    variables.push_back("MASTER_ADDR=" + config.master.substr(0, colon));
    variables.push_back("MASTER_PORT=" + config.master.substr(colon + 1));
  }
  if (!around.library.empty() && !is_set("TRIBUTARY_LIBRARY")) {
    variables.push_back("TRIBUTARY_LIBRARY=" + around.library);
  }
  if (!around.python_package.empty()) {
    variables.push_back("PYTHONPATH=" + around.python_package +
                        (around.python_path.empty() ? "" : ":" + around.python_path));
  }
  // Ranks share the cores. Without this, each would start a thread for every core.
  if (!is_set("OMP_NUM_THREADS")) variables.push_back("OMP_NUM_THREADS=1");
  // Show lines as they are printed, although standard output is a pipe.
  if (!is_set("PYTHONUNBUFFERED")) variables.push_back("PYTHONUNBUFFERED=1");
  return variables;
}

std::string url_of(const LaunchConfig& config, const std::string& server) {
  std::string url = fmt::format("tributary://{}/job/{}?deadline_ms={}", server, config.job_id,
                                in_milliseconds(config.deadline));
  if (config.auth != auth::Mode::kNone) url += fmt::format("&auth={}", to_string(config.auth));
  for (const std::string& option : config.url_options) url += "&" + option;
  return url;
}

/// Returns the time after which the aggregator stops waiting for a straggler. A rank that misses
/// two blocks in a row may sleep for long, so the others should not wait a timeout for each block.
/// The rank returns with its next contribution.
Duration permanent_after(const LaunchConfig& config) {
  constexpr Duration kLeast = milliseconds(10);  // Minimum of the job key permanent_ms.
  if (config.permanent_after > Duration()) return config.permanent_after;
  if (config.straggler_timeout == Duration()) return Duration();
  return std::max(config.straggler_timeout * 2, kLeast);
}

ProgramPlan plan_aggregator(const LaunchConfig& config, const LaunchSurroundings& around,
                            const std::string& address) {
  std::string job = fmt::format("id={},sources={},window={},block_grad_max=4095,history={}",
                                config.job_id, config.processes, config.job_window, config.history);
  if (config.straggler_timeout > Duration()) {
    job += fmt::format(",mitigation=on,timeout_ms={}", in_milliseconds(config.straggler_timeout));
  }
  if (const Duration permanent = permanent_after(config); permanent > Duration()) {
    job += fmt::format(",permanent_ms={}", in_milliseconds(permanent));
  }
  if (config.auth != auth::Mode::kNone) job += fmt::format(",auth={}", to_string(config.auth));
  ProgramPlan plan{.name = "the aggregator",
                   .program = around.program,
                   .arguments = {"serve", "--listen", address, "--job", job},
                   .environment = {}};
  if (!config.serve_json_path.empty()) {
    plan.arguments.insert(plan.arguments.end(), {"--json", config.serve_json_path});
  }
  return plan;
}

/// Plans the program and its arguments, the same for all ranks.
Result<ProgramPlan> plan_command(const LaunchConfig& config, const LaunchSurroundings& around) {
  const std::string& name = config.command.front();
  ProgramPlan plan;
  if (!is_python_script(name)) {
    auto program = find_program(name, around.search_path);
    if (!program) return tl::unexpected(program.error());
    plan.program = std::move(*program);
    plan.arguments.assign(config.command.begin() + 1, config.command.end());
    return plan;
  }
  if (access(name.c_str(), R_OK) != 0) {
    return failure(fmt::format("'{}' cannot be read; allowed: a program or a .py file", name));
  }
  auto interpreter = interpreter_of(name, config.python, around.search_path);
  if (!interpreter) return tl::unexpected(interpreter.error());
  plan.program = std::move(*interpreter);
  if (!around.python_package.empty()) plan.arguments = {"-m", "tributary.run"};
  plan.arguments.insert(plan.arguments.end(), config.command.begin(), config.command.end());
  return plan;
}

Result<void> check(const LaunchConfig& config) {
  const uint32_t world = config.world == 0 ? config.processes : config.world;
  if (config.rank_first + config.processes > world) {
    return failure(
        fmt::format("--first-rank {} and -n {} reach beyond --world {}; allowed: a sum "
                    "of at most --world",
                    config.rank_first, config.processes, world));
  }
  const bool several_machines = world != config.processes;
  if (several_machines && config.master.empty()) {
    return failure("--master is missing; with --world, give HOST:PORT of rank 0's machine");
  }
  if (!config.master.empty() && config.master.find(':') == std::string::npos) {
    return failure(fmt::format("--master {} has no port; allowed: HOST:PORT", config.master));
  }
  if (several_machines && config.backend == kOwnBackend && config.server.empty()) {
    return failure("--server is missing; ranks on several machines need a running appliance");
  }
  return {};
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

Result<LaunchPlan> plan_launch(const LaunchConfig& config, const LaunchSurroundings& around) {
  if (const auto checked = check(config); !checked) return tl::unexpected(checked.error());
  const uint32_t world = config.world == 0 ? config.processes : config.world;
  LaunchPlan plan;
  std::string server = config.server;
  if (server.empty() && config.backend == kOwnBackend) {
    server = fmt::format("127.0.0.1:{}", around.aggregator_port);
    plan.own_aggregator = true;
    plan.aggregator = plan_aggregator(config, around, server);
  }
  const auto command = plan_command(config, around);
  if (!command) return tl::unexpected(command.error());
  std::vector<std::string> shared = shared_environment(config, around, world);
  if (plan.own_aggregator && config.auth != auth::Mode::kNone) {
    shared.push_back(fmt::format("{}={}", auth::kSecretVariable, around.secret));
    plan.aggregator.environment.push_back(shared.back());
  }
  if (!server.empty()) shared.push_back("TRIBUTARY_URL=" + url_of(config, server));

  for (uint32_t local = 0; local < config.processes; local++) {
    ProgramPlan rank = *command;
    const uint32_t number = config.rank_first + local;
    rank.name = fmt::format("rank {}", number);
    rank.environment = shared;
    rank.environment.push_back(fmt::format("RANK={}", number));
    rank.environment.push_back(fmt::format("LOCAL_RANK={}", local));
    plan.ranks.push_back(std::move(rank));
  }
  return plan;
}

}  // namespace tributary::cli

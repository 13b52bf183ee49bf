// SPDX-License-Identifier: Apache-2.0
#include "cli/launch/launch_command.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "apps/trio_ml/config.h"
#include "auth/keys.h"
#include "auth/secret.h"
#include "base/cpus.h"
#include "cli/console.h"
#include "cli/launch/launch_plan.h"
#include "cli/launch/launch_run.h"
#include "cli/plan/plan_command.h"
#include "cli/settings.h"
#include "host/worker_config.h"
#include "io/file_descriptor.h"
#include "io/udp/free_port.h"

namespace tributary::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kJobMax = 255;    // Eight bits of the Trio-ML header.
constexpr uint64_t kRanksMax = 256;  // Eight bits of src_id.
constexpr uint64_t kMinuteMs = 60'000;
constexpr uint64_t kHourMs = 3'600'000;
constexpr uint64_t kDayMs = 86'400'000;

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

/// Returns the first of `candidates` that exists; empty if none does.
std::string first_that_exists(const std::vector<fs::path>& candidates) {
  std::error_code ignored;
  for (const fs::path& path : candidates) {
    if (fs::exists(path, ignored)) return fs::weakly_canonical(path, ignored).string();
  }
  return "";
}

/// Returns `count` free UDP ports that differ.
Result<std::vector<uint16_t>> free_udp_ports(uint32_t count) {
  std::vector<uint16_t> ports;
  while (ports.size() < count) {
    const auto port = io::free_port(io::Transport::kUdp);
    if (!port) return tl::unexpected(port.error());
    if (std::find(ports.begin(), ports.end(), *port) == ports.end()) ports.push_back(*port);
  }
  return ports;
}

Result<HostFacts> gather_host_facts(const LaunchConfig& config) {
  HostFacts facts;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return failure("/proc/self/exe cannot be read: " + error.message());
  const fs::path folder = program.parent_path();
  facts.program = program.string();
  // A build tree has the library next to the program; an installation has it in the library folder.
  facts.library =
      first_that_exists({folder / "libtributary.so.0",
                         folder / ".." / TRIBUTARY_LIBRARY_FOLDER / "libtributary.so.0"});
  // A wheel has the program inside the package.
  const std::string package =
      fs::exists(folder / "__init__.py", error)
          ? folder.string()
          : first_that_exists({folder / "../share/tributary/python/tributary",
                               TRIBUTARY_SOURCE_FOLDER "/python/tributary"});
  if (!package.empty()) facts.python_package = fs::path(package).parent_path().string();
  facts.secret = fmt::format("{:016x}{:016x}{:016x}{:016x}", auth::random_u64(), auth::random_u64(),
                             auth::random_u64(), auth::random_u64());
  facts.search_path = value_of("PATH");
  facts.python_path = value_of("PYTHONPATH");
  for (const char* name :
       {"TRIBUTARY_LIBRARY", "OMP_NUM_THREADS", "PYTHONUNBUFFERED", auth::kSecretVariable}) {
    if (std::getenv(name) != nullptr) facts.variables_set.emplace_back(name);
  }
  auto aggregator_ports = free_udp_ports(free_ports_wanted(config));
  if (!aggregator_ports) return tl::unexpected(aggregator_ports.error());
  const auto master_port = io::free_port(io::Transport::kTcp);
  if (!master_port) return tl::unexpected(master_port.error());
  facts.aggregator_ports = *std::move(aggregator_ports);
  facts.master_port = *master_port;
  facts.cpus = cpus_allowed();
  facts.has_ipv6 = io::FileDescriptor(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)).is_open();
  return facts;
}

int refuse(const Error& error) {
  print_error("tributary launch: {}\n", error.text);
  return kExitUsage;
}

int run(LaunchConfig& config, std::vector<std::string> command) {
  config.command = std::move(command);
  if (!config.command.empty() && config.command.front() == "--") {
    config.command.erase(config.command.begin());
  }
  if (config.command.empty())
    return refuse({"nothing to launch; allowed: a program, a .py file or -m MODULE"});
  if (config.command.front().starts_with('-') && config.command.front() != "-m") {
    return refuse(
        {fmt::format("unknown flag '{}'; see tributary launch --help", config.command.front())});
  }
  const auto facts = gather_host_facts(config);
  if (!facts) return refuse(facts.error());
  const auto plan = plan_launch(config, *facts);
  if (!plan) return refuse(plan.error());
  return run_launch(*plan, config.keep_going, stdout, stderr);
}

void add_rank_flags(CLI::App& command, LaunchConfig& config) {
  add_uint(command, "-n,--processes", config.processes, 1, kRanksMax,
           "Ranks to start on this machine");
  command
      .add_option("--backend", config.backend,
                  "Back end, passed to the ranks as TRIBUTARY_BACKEND; only tributary needs an "
                  "aggregator")
      ->capture_default_str();
  add_uint(command, "--world", config.world, 0, kRanksMax,
           "Ranks on all machines; 0: only those started here");
  add_uint(command, "--first-rank", config.rank_first, 0, kRanksMax - 1,
           "Number of the first rank started here");
  command.add_option("--master", config.master,
                     "Where rank 0 meets the others, HOST:PORT; default: a free port here");
  command.add_option("--python", config.python,
                     "Interpreter of .py files; default: taken from the file's first line");
  command.add_flag("--keep-going", config.keep_going,
                   "Let the other ranks continue when one fails");
}

void add_aggregator_flags(CLI::App& command, LaunchConfig& config) {
  command.add_option("--server", config.server,
                     "Running aggregators, HOST:PORT[=WEIGHT],…; default: start one");
  command
      .add_option("--aggregators", config.aggregators,
                  "Aggregators to start on this machine, or colocated: one on each machine of "
                  "--workers that the plan gives a share")
      ->type_name("K|colocated")
      ->capture_default_str();
  add_plan_machines(command, config.machines)
      ->description(
          "With --aggregators colocated: the machines that run ranks, "
          "ADDRESS[:PORT][@GBIT[/SUM]],…, the "
          "same list on all; see tributary plan");
  add_uint(command, "--node-rank", config.node_rank, 0, kRanksMax - 1,
           "This machine's place in --workers, from 0 on");
  add_on_off(command, "--local-reduce", config.local_reduce,
             "With --workers: add the tensors of a machine's ranks before they leave it");
  add_uint(command, "--local-port", config.local_port, 1, UINT16_MAX,
           "First port of 127.0.0.1 for the aggregators that do so, the same on all machines");
  command
      .add_option("--aggregator-cpus", config.aggregator_cpus,
                  "CPUs of the started aggregators, as in 0-2,5; ranks then run on the others")
      ->type_name("LIST");
  add_uint(command, "--aggregator-cpu-percent", config.aggregator_cpu_percent, 1, 100,
           "Share of a CPU that each started aggregator may use, in percent");
  add_uint(command, "--job", config.job_id, 0, kJobMax, "Job id");
  add_auth(
      command, config.auth,
      "Authentication of the job; started aggregators and their ranks share TRIBUTARY_SECRET, or "
      "a new secret if it is not set");
  add_milliseconds(
      command, "--timeout-ms", config.straggler_timeout, 0, kMinuteMs,
      "Straggler mitigation: longest wait of a block; 0: none. Started aggregator only");
  add_milliseconds(
      command, "--permanent-ms", config.permanent_after, 0, kHourMs,
      "Stop waiting for a straggler after it contributes nothing for this long; 0: two timeouts");
  add_uint(command, "--window", config.job_window, 1, trio_ml::kBlockCntLimit,
           "Window of the started aggregator's job, a power of two");
  add_uint(command, "--history", config.history, 1, trio_ml::kHistoryLimit,
           "Results kept for each place of that window");
  command
      .add_option("--serve-json", config.serve_json_path,
                  "Write the started aggregator's counters to this file")
      ->type_name("FILE");
  command
      .add_option("--job-option", config.job_options,
                  "Another key of the started aggregators' job, as for serve --job; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_key(command, "--deadline-ms", {.type = KeyType::kDurationMs, .min = 1, .max = kDayMs},
          std::to_string(in_milliseconds(host::kDeadlineDefault)),
          "Longest wait for a rank or the aggregator; takes the place of the script's timeout",
          [&config](const KeyValue& value) { config.deadline = std::get<Duration>(value); });
  command
      .add_option("--url-option", config.url_options,
                  "Another key of TRIBUTARY_URL, for example format=fixed; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

}  // namespace

void add_launch_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("launch",
                         "Start the ranks of a training script, and aggregators for them:\n"
                         "tributary launch -n 4 train.py --flags-of-the-script, or\n"
                         "tributary launch -n 4 -m package.train --flags-of-the-module");
  const auto config = std::make_shared<LaunchConfig>();
  command->prefix_command();  // Everything after the script belongs to the script.
  add_rank_flags(*command, *config);
  add_aggregator_flags(*command, *config);
  command->callback(
      [config, command, &exit_code] { exit_code = run(*config, command->remaining()); });
}

}  // namespace tributary::cli

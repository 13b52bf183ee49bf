// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_command.h"

#include <fmt/format.h>
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/appliance.h"
#include "cli/job_keys.h"
#include "cli/settings.h"
#include "io/resolve.h"
#include "io/udp_port_config.h"

namespace tributary::cli {
namespace {

struct ServeFlags {
  explicit ServeFlags(CLI::App& command) : settings(command) {}

  Settings settings;
  ApplianceConfig appliance;
  std::vector<KeyValues> jobs;
  std::string listen = "0.0.0.0:12000";
  std::vector<std::string> ports;
  std::string json_path;
};

/// The signals that end the server or ask for its counters. They are blocked in every thread and
/// taken by the main thread, so no handler runs between two instructions of a core.
sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

bool write_stats(Appliance& appliance, const std::string& path) {
  if (path.empty()) return true;
  // Written beside it and renamed, so that a reader never sees half a file.
  const std::string temporary = path + ".new";
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << appliance.stats().dump(2) << '\n';
    if (!file.flush()) {
      fmt::print(stderr, "tributary serve: --json {}: cannot be written\n", path);
      return false;
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return true;
  fmt::print(stderr, "tributary serve: --json {}: cannot be written\n", path);
  return false;
}

Result<ApplianceConfig> complete(const ServeFlags& flags) {
  ApplianceConfig config = flags.appliance;
  const auto listen = io::resolve(flags.listen, microcode::kTrioMlPort);
  if (!listen) return failure(fmt::format("--listen: {}", listen.error().text));
  config.listen = *listen;
  if ((config.cores & (config.cores - 1)) != 0) {
    return failure(fmt::format("--cores {} is not allowed; allowed is a power of two up to {}",
                               config.cores, io::kUdpQueuesMax));
  }
  for (const std::string& text : flags.ports) {
    auto device = io::parse_dpdk_device(text);
    if (!device) return failure(fmt::format("--port {}", device.error().text));
    config.devices.push_back(*std::move(device));
  }
  for (const KeyValues& row : flags.jobs) {
    const auto job = to_job(row);
    if (!job) return tl::unexpected(job.error());
    config.jobs.push_back(*job);
  }
  return config;
}

int refuse(const Error& error) {
  fmt::print(stderr, "tributary serve: {}\n", error.text);
  return kExitUsage;
}

int run(const ServeFlags& flags) {
  const auto config = complete(flags);
  if (!config) return refuse(config.error());
  const sigset_t signals = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto started = Appliance::start(*config);
  if (!started) return refuse(started.error());
  Appliance& appliance = **started;
  if (!write_stats(appliance, flags.json_path)) return kExitUsage;
  for (const std::string& warning : appliance.warnings()) {
    fmt::print(stderr, "tributary serve: warning: {}\n", warning);
  }
  fmt::print(stderr, "tributary serve: {} jobs at {}, {} cores\n", config->jobs.size(),
             appliance.local().to_string(), config->cores);
  fmt::print("ready\n");
  std::fflush(stdout);

  int signal = 0;
  do {
    sigwait(&signals, &signal);
    if (signal == SIGUSR1) write_stats(appliance, flags.json_path);
  } while (signal == SIGUSR1);
  appliance.stop();
  return write_stats(appliance, flags.json_path) ? 0 : 1;
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("serve", "Run the aggregator appliance over UDP sockets or DPDK devices");
  const auto flags = std::make_shared<ServeFlags>(*command);
  command->add_option("--listen", flags->listen, "Address to serve, HOST:PORT")
      ->capture_default_str();
  command
      ->add_option("--port", flags->ports,
                   "Serve over this DPDK device instead of sockets, dpdk:DEVICE[,key=value]...; "
                   "may be repeated")
      ->type_name("PORT");
  flags->settings.add_table(job_keys(), flags->jobs, "A job to serve; may be repeated");
  add_uint(*command, "--cores", flags->appliance.cores, 1, io::kUdpQueuesMax,
           "Polling cores, a power of two");
  add_uint(*command, "--spin-us", flags->appliance.spin_us, 0, 1'000'000,
           "Keep polling so many microseconds after the last packet; 0 sleeps at once");
  add_uint(*command, "--buffer-mb", flags->appliance.buffer_mb, 1, 1024,
           "Socket buffers, each way and core; more for many workers with large windows");
  add_uint(*command, "--memory-mb", flags->appliance.memory_mb, 1, 1U << 20,
           "Most memory for all jobs");
  command
      ->add_option("--json", flags->json_path,
                   "Write every counter to this file at the end, and on SIGUSR1")
      ->type_name("FILE");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli

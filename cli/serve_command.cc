// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_command.h"

#include <fmt/format.h>
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/result_file.h"
#include "cli/console.h"
#include "cli/plan_command.h"
#include "cli/plan_machines.h"
#include "cli/serve_control.h"
#include "cli/serve_log.h"
#include "cli/serve_program.h"
#include "cli/serve_record.h"
#include "cli/serve_reload.h"
#include "cli/serve_service.h"
#include "cli/serve_switchml.h"
#include "cli/settings.h"
#include "cli/version.h"
#include "host/auto_terms.h"
#include "io/devices/device_port.h"
#include "io/udp/resolve.h"
#include "io/udp/udp_port_config.h"
#include "server/appliance.h"
#include "server/job_keys.h"

namespace tributary::cli {
namespace {

using wire::Protocol;

/// For the predicted time only. Assumed: the usual MTU of Ethernet.
constexpr uint32_t kEthernetMtu = 1500;
constexpr uint32_t kLingerSMax = 86'400;

struct ServeFlags {
  explicit ServeFlags(CLI::App& app) : command(app), settings(app) {}

  const CLI::App& command;
  Settings settings;
  Protocol protocol = Protocol::kTrioMl;
  SwitchmlFlags switchml;
  ControlFlags control;
  server::LogConfig log;
  server::RecordConfig record;
  server::ApplianceConfig appliance;
  std::vector<KeyValues> jobs;
  PlanFlags plan;       ///< Without workers: this server is not a directory.
  std::string program;  ///< Empty: an aggregator.
  std::string listen;   ///< Empty: the protocol's default.
  std::vector<std::string> ports;
  std::string json_path;
  uint32_t linger_s = 0;
  std::string cpus;
};

/// The signals that end the server or ask for a file. Every thread blocks them and the main
/// thread waits for them, so no handler ever interrupts a core.
sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  // A blocked signal would reach the main thread even if nohup has set it to be ignored.
  struct sigaction hang_up {};
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
    sigaddset(&set, SIGHUP);
  }
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  return set;
}

using Stats = std::function<nlohmann::json()>;

bool write_stats(const Stats& stats, const std::string& path) {
  if (path.empty()) return true;
  const auto written = write_result_file(path, stats().dump(2) + "\n");
  if (!written) print_error("tributary serve: --json {}\n", written.error().text);
  return written.has_value();
}

Result<void> check_cores(uint32_t cores) {
  if ((cores & (cores - 1)) == 0) return {};
  return failure(fmt::format("--cores {} is not allowed; allowed is a power of two up to {}", cores,
                             io::kUdpQueuesMax));
}

/// Returns where to listen. SwitchML's packets cannot be authenticated, so its sockets serve this
/// machine only, unless the user says otherwise. A device has an address of its own.
Result<Endpoint> listen_address(const ServeFlags& flags) {
  const bool is_switchml = flags.protocol == Protocol::kSwitchml;
  const bool only_here = is_switchml && flags.ports.empty();
  const std::string text =
      flags.listen.empty() ? (only_here ? "127.0.0.1" : "0.0.0.0") : flags.listen;
  auto listen = io::resolve(text, is_switchml ? wire::kSwitchmlPort : wire::kTrioMlPort);
  if (!listen) return failure(fmt::format("--listen: {}", listen.error().text));
  return listen;
}

Result<io::DevicePortSpec> devices_of(const ServeFlags& flags) {
  io::DevicePortSpec devices;
  for (const std::string& text : flags.ports) {
    if (const auto added = io::add_device(text, devices); !added) {
      return tl::unexpected(added.error());
    }
  }
  return devices;
}

/// Returns the CPUs of --cpus; none without it.
Result<std::vector<int>> cpus_of(const ServeFlags& flags) {
  if (flags.cpus.empty()) return std::vector<int>();
  auto cpus = parse_cpus(flags.cpus, cpus_allowed());
  if (!cpus) return failure(fmt::format("--cpus: {}", cpus.error().text));
  return cpus;
}

/// Returns a flag of the directory that was given; null: none.
const char* given_plan_flag(const CLI::App& command) {
  for (const char* flag : {"--workers", "--servers", "--colocated", "--gbit", "--sum-gbit"}) {
    if (command.count(flag) > 0) return flag;
  }
  return nullptr;
}

Result<server::ApplianceConfig> complete(const ServeFlags& flags) {
  server::ApplianceConfig config = flags.appliance;
  const auto listen = listen_address(flags);
  if (!listen) return tl::unexpected(listen.error());
  config.listen = *listen;
  if (const auto good = check_cores(config.cores); !good) return tl::unexpected(good.error());
  if (const auto good = check_record_flags(flags.command, flags.record, config.cores); !good) {
    return tl::unexpected(good.error());
  }
  config.record_events = flags.record.on ? flags.record.events : 0;
  config.record_name = flags.control.name;
  auto devices = devices_of(flags);
  if (!devices) return tl::unexpected(devices.error());
  config.devices = *std::move(devices);
  auto cpus = cpus_of(flags);
  if (!cpus) return tl::unexpected(cpus.error());
  config.cpus = *std::move(cpus);
  for (const KeyValues& row : flags.jobs) {
    const auto job = server::to_job(row);
    if (!job) return tl::unexpected(job.error());
    config.jobs.push_back(*job);
  }
  if (flags.plan.workers.empty()) {
    if (const char* flag = given_plan_flag(flags.command); flag != nullptr) {
      return failure(fmt::format("{} needs --workers, which makes this server a directory", flag));
    }
    return config;
  }
  auto machines = read_plan_machines(flags.plan);
  if (!machines) return tl::unexpected(machines.error());
  config.directory =
      server::DirectoryConfig{.machines = std::move(machines->machines),
                              .endpoints = std::move(machines->endpoints),
                              .wire_ratio = host::auto_wire_ratio(kEthernetMtu, /*ipv4=*/true)};
  config.on_plan = [](const std::string& line) { print_error("tributary serve: {}\n", line); };
  return config;
}

int refuse(const Error& error) {
  print_error("tributary serve: {}\n", error.text);
  return kExitUsage;
}

/// The protocol's part of serve().
struct Service {
  std::string what;  ///< For the first line.
  std::vector<std::string> warnings;
  Stats stats;
  std::function<std::string()> status;  ///< One line; asks every core.
  std::function<bool()> is_in_use;
  std::function<void()> stop;
  std::function<void()> on_ready = [] {};   ///< Called before "ready".
  std::function<void()> begin_end = [] {};  ///< Called when a signal ends the server.
  std::function<void()> reload = {};        ///< Called on SIGHUP; null: SIGHUP ends the server.
  std::function<void()> record = {};        ///< Called on SIGUSR2; null: there is no recorder.
};

/// Waits for a signal. Writes the counters if it is SIGUSR1, writes a recording if it is SIGUSR2, and
/// reloads if it is SIGHUP.
/// @param pause Longest wait; null: no limit.
/// @return whether a signal came that ends the server.
bool take_ending_signal(const ServeFlags& flags, const Service& service, const timespec* pause) {
  const sigset_t signals = awaited_signals();
  const int signal = sigtimedwait(&signals, nullptr, pause);
  if (signal == SIGUSR1) write_stats(service.stats, flags.json_path);
  if (signal == SIGUSR2 && service.record) service.record();
  if (signal == SIGUSR2 && !service.record) {
    print_error("tributary serve: SIGUSR2: this server has no flight recorder\n");
  }
  if (signal == SIGHUP && service.reload) {
    service.reload();
    return false;
  }
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

/// Waits until all workers have left, a signal comes, or --linger-s have passed.
void linger(const ServeFlags& flags, const Service& service) {
  constexpr int64_t kAskEveryNs = 20'000'000;
  constexpr uint32_t kAsksPerSecond = 50;
  const timespec pause{.tv_sec = 0, .tv_nsec = kAskEveryNs};
  if (flags.linger_s > 0 && service.is_in_use()) {
    print_error(
        "tributary serve: waiting up to {} s for workers to leave; a second signal ends at once\n",
        flags.linger_s);
  }
  for (uint64_t asks = uint64_t{flags.linger_s} * kAsksPerSecond; asks > 0; asks--) {
    if (!service.is_in_use() || take_ending_signal(flags, service, &pause)) return;
  }
}

/// Writes the counters at once to check the path, then serves until a signal ends it.
/// @return the exit code.
int serve(const ServeFlags& flags, const Service& service) {
  const Stats& stats = service.stats;
  auto manager = server::ServiceManager::from_environment();
  if (!manager) return refuse(manager.error());
  if (!write_stats(stats, flags.json_path)) return kExitUsage;
  for (const std::string& warning : service.warnings) {
    print_error("tributary serve: warning: {}\n", warning);
  }
  if (flags.log.level >= server::LogLevel::kInfo) {
    print_error("tributary serve: {}, {} cores\n", service.what, flags.appliance.cores);
  }
  service.on_ready();
  // Programs wait for this line, so do not serve without it.
  print("ready\n");
  if (std::fflush(stdout) != 0) return end_output(1);
  ServiceReports reports(*std::move(manager), service.status);

  while (!take_ending_signal(flags, service, reports.pause())) reports.report();
  reports.report_end(seconds(flags.linger_s));
  service.begin_end();
  linger(flags, service);
  service.stop();
  return write_stats(stats, flags.json_path) ? 0 : 1;
}

void log_start(server::Log& log, const server::Appliance& appliance,
               const server::ApplianceConfig& config) {
  log.write(server::LogLevel::kInfo, "server_started",
            {{"listen", appliance.local().to_string()},
             {"jobs", config.jobs.size()},
             {"cores", config.cores},
             {"version", std::string(program_version())}});
}

int run_trio_ml(const ServeFlags& flags) {
  if (uses_switchml_flags(flags.command)) {
    return refuse(
        {"--session, --control and the other SwitchML flags need --protocol switchml; allowed with "
         "trio-ml: --job"});
  }
  const auto config = complete(flags);
  if (!config) return refuse(config.error());
  const auto started = server::Appliance::start(*config);
  if (!started) return refuse(started.error());
  server::Appliance& appliance = **started;
  server::ServerLog log(flags.log, appliance);
  std::unique_ptr<server::RecordKeeper> recorder;
  if (flags.record.on) {
    auto keeper = server::RecordKeeper::start(flags.record, appliance, log.log());
    if (!keeper) return refuse(keeper.error());
    recorder = *std::move(keeper);
  }
  auto control = ServedControl::start(flags.control, appliance, log, recorder.get());
  if (!control) return refuse(control.error());
  std::string what =
      fmt::format("{} jobs at {}", config->jobs.size(), appliance.local().to_string());
  if (!(*control)->path().empty()) what += ", control socket " + (*control)->path();
  if (!(*control)->url().empty()) what += ", dashboard " + (*control)->url();
  std::vector<std::string> warnings = appliance.warnings();
  if (!(*control)->warning().empty()) warnings.push_back((*control)->warning());
  if (recorder != nullptr && !recorder->warning().empty()) warnings.push_back(recorder->warning());
  const auto stats = [&appliance, &log, &recorder] {
    nlohmann::json json = appliance.stats();
    json["log"] = log.stats();
    if (recorder != nullptr) json["recorder"] = recorder->state();
    return json;
  };
  server::JobReload jobs(config->jobs, (*control)->jobs());
  std::function<void()> reload;
  if (flags.settings.is_from_file(server::job_keys())) {
    reload = [&] {
      (*control)->reload_tokens();
      if (!(*control)->is_ending()) reload_jobs(flags.settings, jobs, log.log());
    };
  }
  std::function<void()> record;
  if (recorder != nullptr) record = [&recorder] { recorder->store(recorder::Cause::kSignal); };
  return serve(flags, {.what = what,
                       .warnings = warnings,
                       .stats = stats,
                       .status = [&appliance] { return status_line(appliance.snapshot()); },
                       .is_in_use = [&appliance] { return appliance.is_in_use(); },
                       .stop =
                           [&appliance, &log, &recorder] {
                             if (recorder != nullptr) recorder->stop();
                             appliance.stop();
                             log.stop();
                           },
                       .on_ready = [&] { log_start(log.log(), appliance, *config); },
                       .begin_end =
                           [&control, &log] {
                             (*control)->set_ending();
                             log.log().write(server::LogLevel::kInfo, "server_stopping");
                           },
                       .reload = reload,
                       .record = record});
}

int run_switchml(const ServeFlags& flags) {
  if (!flags.jobs.empty()) {
    return refuse({"--job needs --protocol trio-ml; allowed with switchml: --session"});
  }
  if (const char* flag = given_plan_flag(flags.command); flag != nullptr) {
    return refuse({fmt::format("{} needs --protocol trio-ml", flag)});
  }
  const auto cpus = cpus_of(flags);
  if (!cpus) return refuse(cpus.error());
  if (flags.linger_s > 0) return refuse({"--linger-s needs --protocol trio-ml"});
  if (uses_control_flags(flags.command))
    return refuse({"--api, --name and --http need --protocol trio-ml"});
  if (uses_log_flags(flags.command)) {
    return refuse({"--log and --log-level need --protocol trio-ml"});
  }
  if (const char* flag = given_record_flag(flags.command); flag != nullptr) {
    return refuse({fmt::format("{} needs --protocol trio-ml", flag)});
  }
  if (flags.command.get_option("--local")->count() > 0) {
    return refuse({"--local needs --protocol trio-ml; SwitchML is served over sockets only"});
  }
  const auto listen = listen_address(flags);
  if (!listen) return refuse(listen.error());
  const auto devices = devices_of(flags);
  if (!devices) return refuse(devices.error());
  if (const auto good = check_cores(flags.appliance.cores); !good) return refuse(good.error());
  const auto config = with_switchml_flags({.listen = *listen,
                                           .devices = *devices,
                                           .cores = flags.appliance.cores,
                                           .spin_us = flags.appliance.spin_us,
                                           .cpu_percent = flags.appliance.cpu_percent,
                                           .cpus = *cpus,
                                           .memory_mb = flags.appliance.memory_mb,
                                           .buffer_mb = flags.appliance.buffer_mb},
                                          flags.switchml);
  if (!config) return refuse(config.error());
  const auto started = server::SwitchmlAppliance::start(*config);
  if (!started) return refuse(started.error());
  server::SwitchmlAppliance& appliance = **started;
  std::string what = fmt::format("SwitchML at {}, {} sessions configured",
                                 appliance.local().to_string(), config->sessions.size());
  for (const Endpoint& at : appliance.control_points()) what += ", control " + at.to_string();
  return serve(flags, {.what = what,
                       .warnings = appliance.warnings(),
                       .stats = [&appliance] { return appliance.stats(); },
                       .status = [&appliance] { return status_line(appliance.stats()); },
                       .is_in_use = [] { return false; },
                       .stop = [&appliance] { appliance.stop(); }});
}

int run_program(const ServeFlags& flags) {
  const auto chosen = parse_program(flags.program);
  if (!chosen) return refuse(chosen.error());
  for (const char* flag :
       {"--job", "--protocol", "--listen", "--workers", "--linger-s", "--local", "--memory-mb",
        "--api", "--name", "--http", "--http-token-file", "--log", "--log-level", "--record",
        "--record-dir", "--record-events", "--record-stall-ms"}) {
    if (flags.command.count(flag) > 0) {
      return refuse({fmt::format("{} does not go with --program", flag)});
    }
  }
  if (const char* flag = given_plan_flag(flags.command); flag != nullptr) {
    return refuse({fmt::format("{} does not go with --program", flag)});
  }
  if (uses_switchml_flags(flags.command)) {
    return refuse({"--session and the other SwitchML flags do not go with --program"});
  }
  const auto sides = inline_sides(flags.ports);
  if (!sides) return refuse(sides.error());
  const auto cpus = cpus_of(flags);
  if (!cpus) return refuse(cpus.error());
  const auto started =
      start_program(*chosen, {.sides = *sides,
                              .cores = flags.appliance.cores,
                              .buffer_mb = flags.appliance.buffer_mb,
                              .engine = {.spin = microseconds(flags.appliance.spin_us),
                                         .cpu_percent = flags.appliance.cpu_percent,
                                         .cpus = *cpus}});
  if (!started) return refuse(started.error());
  programs::LiveService& service = **started;
  const std::string name(chosen->program->name);
  const auto stats = [&service, &name] {
    nlohmann::json json = service.stats();
    json["program"] = name;
    return json;
  };
  std::vector<std::string> places;
  for (const io::InlineSideSpec& side : *sides) {
    places.push_back(side.interface().empty() ? side.text : side.interface());
  }
  return serve(flags, {.what = fmt::format("{} on {}", name, fmt::join(places, " and ")),
                       .warnings = service.warnings(),
                       .stats = stats,
                       .status = [&stats] { return status_line(stats()); },
                       .is_in_use = [] { return false; },
                       .stop = [&service] { service.stop(); }});
}

int run(const ServeFlags& flags) {
  // Block the signals before any thread starts, so that all threads inherit the mask.
  const sigset_t signals = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (!flags.program.empty()) return run_program(flags);
  return flags.protocol == Protocol::kSwitchml ? run_switchml(flags) : run_trio_ml(flags);
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "serve", "Run the aggregator appliance, or a packet program on live traffic");
  const auto flags = std::make_shared<ServeFlags>(*command);
  command
      ->add_option(
          "--program", flags->program,
          "Run this packet program inline between two --port, or back out of a single one, "
          "instead of an aggregator. A --port is packet:INTERFACE, dpdk:DEVICE[,key=value]..., or "
          "a tunnel of frames in UDP, "
          "vxlan:ADDRESS[:PORT],peer=ADDRESS[:PORT][,vni=NUMBER]; see tributary programs")
      ->type_name("NAME[,KEY=VALUE]…");
  add_protocol(*command, flags->protocol, "Protocol of the workers");
  command->add_option("--listen", flags->listen,
                      fmt::format("Address to serve, HOST[:PORT]; default 0.0.0.0:{} for trio-ml, "
                                  "127.0.0.1:{} for switchml, which cannot be authenticated",
                                  wire::kTrioMlPort, wire::kSwitchmlPort));
  command
      ->add_option("--port", flags->ports,
                   fmt::format("Serve over this device instead of sockets, {}; DPDK devices: "
                               "repeatable",
                               io::kDevicePortShapes))
      ->type_name("PORT");
  flags->settings.add_table(server::job_keys(), flags->jobs, "A job to serve");
  add_plan_machines(*command, flags->plan)
      ->description(
          "This server is the directory of its jobs: it plans each session with those "
          "aggregators that answer. Worker machines: a number, or a list of "
          "ADDRESS[:PORT][@GBIT[/SUM]]; see tributary plan");
  add_colocated(*command, flags->plan);
  add_switchml_flags(*command, flags->settings, flags->switchml);
  add_uint(*command, "--cores", flags->appliance.cores, 1, io::kUdpQueuesMax,
           "Polling cores, a power of two");
  add_uint(*command, "--spin-us", flags->appliance.spin_us, 0, 1'000'000,
           "Keep polling for this many microseconds after the last packet; 0: sleep at once");
  command
      ->add_option("--cpus", flags->cpus,
                   "CPUs of the polling cores, as in 0-2,5: core i runs on the i-th; default: any")
      ->type_name("LIST");
  add_uint(*command, "--cpu-percent", flags->appliance.cpu_percent, 1, 100,
           "Share of a CPU that each polling core may use, in percent");
  add_uint(*command, "--buffer-mb", flags->appliance.buffer_mb, 1, 1024,
           "MB of socket buffers, per direction and core; more for many workers or large windows");
  add_on_off(*command, "--local", flags->appliance.local,
             "Serve workers of this machine over shared memory, beside UDP sockets (trio-ml)");
  add_control_flags(*command, flags->control);
  add_log_flags(*command, flags->log);
  add_record_flags(*command, flags->record);
  add_uint(*command, "--memory-mb", flags->appliance.memory_mb, 1, 1U << 20,
           "Most memory for all jobs, in MB");
  add_uint(
      *command, "--linger-s", flags->linger_s, 0, kLingerSMax,
      "After SIGTERM or SIGINT, go on serving until all workers have left, for at most so many "
      "seconds; a second signal ends at once");
  command
      ->add_option("--json", flags->json_path,
                   "Write every counter to this file at the start, on SIGUSR1 and at the end")
      ->type_name("FILE");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli

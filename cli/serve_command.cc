// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_command.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "cli/console.h"
#include "cli/plan_command.h"
#include "cli/plan_machines.h"
#include "cli/serve_control.h"
#include "cli/serve_log.h"
#include "cli/serve_loop.h"
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

ServeLoopFlags loop_flags(const ServeFlags& flags) {
  return {.linger_s = flags.linger_s, .json_path = flags.json_path, .log_level = flags.log.level};
}

/// Returns the settings that every server has, for GET /v1/config.
nlohmann::json common_settings(const ServeFlags& flags, const std::vector<int>& cpus) {
  return {{"cores", flags.appliance.cores},
          {"spin_us", flags.appliance.spin_us},
          {"cpu_percent", flags.appliance.cpu_percent},
          {"cpus", cpus},
          {"buffer_mb", flags.appliance.buffer_mb}};
}

nlohmann::json settings_of(const ServeFlags& flags, const server::ApplianceConfig& config) {
  nlohmann::json settings = common_settings(flags, config.cpus);
  settings["memory_mb"] = config.memory_mb;
  settings["local"] = config.local;
  settings["directory"] = config.directory.has_value();
  return settings;
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
  const std::string listen = appliance.local().to_string();
  auto control = ServedControl::start(flags.control, {.server = appliance,
                                                      .log = log,
                                                      .name = listen,
                                                      .settings = settings_of(flags, *config),
                                                      .jobs = &appliance,
                                                      .recorder = recorder.get()});
  if (!control) return refuse(control.error());
  std::vector<std::string> warnings = appliance.warnings();
  if (recorder != nullptr && !recorder->warning().empty()) warnings.push_back(recorder->warning());
  const auto stats = [&appliance, &recorder] {
    nlohmann::json json = appliance.stats();
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
  Service service{.cores = flags.appliance.cores,
                  .what = fmt::format("{} jobs at {}", config->jobs.size(), listen),
                  .warnings = warnings,
                  .stats = stats,
                  .status = [&appliance] { return status_line(appliance.snapshot()); },
                  .is_in_use = [&appliance] { return appliance.is_in_use(); },
                  .stop =
                      [&appliance, &recorder] {
                        if (recorder != nullptr) recorder->stop();
                        appliance.stop();
                      },
                  .reload = reload,
                  .record = record};
  add_control(service, **control, log, {{"listen", listen}, {"jobs", config->jobs.size()}});
  return serve(loop_flags(flags), service);
}

/// Refuses flags that only servers of Trio-ML have.
Result<void> check_switchml_flags(const ServeFlags& flags) {
  if (!flags.jobs.empty()) {
    return failure("--job needs --protocol trio-ml; allowed with switchml: --session");
  }
  if (const char* flag = given_plan_flag(flags.command); flag != nullptr) {
    return failure(fmt::format("{} needs --protocol trio-ml", flag));
  }
  if (flags.linger_s > 0) return failure("--linger-s needs --protocol trio-ml");
  if (const char* flag = given_record_flag(flags.command); flag != nullptr) {
    return failure(fmt::format("{} needs --protocol trio-ml", flag));
  }
  if (flags.command.get_option("--local")->count() > 0) {
    return failure("--local needs --protocol trio-ml; SwitchML is served over sockets only");
  }
  return {};
}

Result<server::SwitchmlConfig> complete_switchml(const ServeFlags& flags) {
  if (const auto good = check_switchml_flags(flags); !good) return tl::unexpected(good.error());
  const auto cpus = cpus_of(flags);
  if (!cpus) return tl::unexpected(cpus.error());
  const auto listen = listen_address(flags);
  if (!listen) return tl::unexpected(listen.error());
  const auto devices = devices_of(flags);
  if (!devices) return tl::unexpected(devices.error());
  if (const auto good = check_cores(flags.appliance.cores); !good) {
    return tl::unexpected(good.error());
  }
  return with_switchml_flags({.listen = *listen,
                              .devices = *devices,
                              .cores = flags.appliance.cores,
                              .spin_us = flags.appliance.spin_us,
                              .cpu_percent = flags.appliance.cpu_percent,
                              .cpus = *cpus,
                              .memory_mb = flags.appliance.memory_mb,
                              .buffer_mb = flags.appliance.buffer_mb},
                             flags.switchml);
}

int run_switchml(const ServeFlags& flags) {
  const auto config = complete_switchml(flags);
  if (!config) return refuse(config.error());
  const auto started = server::SwitchmlAppliance::start(*config);
  if (!started) return refuse(started.error());
  server::SwitchmlAppliance& appliance = **started;
  const std::string listen = appliance.local().to_string();
  nlohmann::json settings = common_settings(flags, config->cpus);
  settings["memory_mb"] = config->memory_mb;
  settings["sessions"] = config->book.shard.sessions_max;
  settings["slots"] = config->book.shard.slots_max;
  server::ServerLog log(flags.log, appliance);
  auto control = ServedControl::start(
      flags.control, {.server = appliance, .log = log, .name = listen, .settings = settings});
  if (!control) return refuse(control.error());
  std::string what =
      fmt::format("SwitchML at {}, {} sessions configured", listen, config->sessions.size());
  for (const Endpoint& at : appliance.control_points()) what += ", control " + at.to_string();
  Service service{.cores = flags.appliance.cores,
                  .what = what,
                  .warnings = appliance.warnings(),
                  .stats = [&appliance] { return appliance.stats(); },
                  .status = [&appliance] { return status_line(appliance.stats()); },
                  .is_in_use = [] { return false; },
                  .stop = [&appliance] { appliance.stop(); }};
  add_control(service, **control, log, {{"listen", listen}, {"sessions", config->sessions.size()}});
  return serve(loop_flags(flags), service);
}

/// Refuses flags that only aggregators have.
Result<void> check_program_flags(const ServeFlags& flags) {
  for (const char* flag :
       {"--job", "--protocol", "--listen", "--workers", "--linger-s", "--local", "--memory-mb",
        "--record", "--record-dir", "--record-events", "--record-stall-ms"}) {
    if (flags.command.count(flag) > 0) {
      return failure(fmt::format("{} does not go with --program", flag));
    }
  }
  if (const char* flag = given_plan_flag(flags.command); flag != nullptr) {
    return failure(fmt::format("{} does not go with --program", flag));
  }
  if (uses_switchml_flags(flags.command)) {
    return failure("--session and the other SwitchML flags do not go with --program");
  }
  return {};
}

int run_program(const ServeFlags& flags) {
  const auto chosen = parse_program(flags.program);
  if (!chosen) return refuse(chosen.error());
  if (const auto good = check_program_flags(flags); !good) return refuse(good.error());
  const auto sides = inline_sides(flags.ports);
  if (!sides) return refuse(sides.error());
  const auto cpus = cpus_of(flags);
  if (!cpus) return refuse(cpus.error());
  const std::string name(chosen->program->name);
  const auto started =
      start_program(*chosen, {.name = name,
                              .sides = *sides,
                              .cores = flags.appliance.cores,
                              .buffer_mb = flags.appliance.buffer_mb,
                              .engine = {.spin = microseconds(flags.appliance.spin_us),
                                         .cpu_percent = flags.appliance.cpu_percent,
                                         .cpus = *cpus}});
  if (!started) return refuse(started.error());
  programs::LiveService& running = **started;
  const auto stats = [&running, &name] {
    nlohmann::json json = running.stats();
    json["program"] = name;
    return json;
  };
  server::ServerLog log(flags.log, running);
  nlohmann::json settings = common_settings(flags, *cpus);
  settings["program"] = flags.program;
  auto control = ServedControl::start(
      flags.control,
      {.server = running, .log = log, .name = name, .settings = settings, .program = stats});
  if (!control) return refuse(control.error());
  const std::string place = running.place();
  Service service{.cores = flags.appliance.cores,
                  .what = fmt::format("{} on {}", name, place),
                  .warnings = running.warnings(),
                  .stats = stats,
                  .status = [&stats] { return status_line(stats()); },
                  .is_in_use = [] { return false; },
                  .stop = [&running] { running.stop(); }};
  add_control(service, **control, log, {{"program", name}, {"ports", place}});
  return serve(loop_flags(flags), service);
}

int run(const ServeFlags& flags) {
  block_awaited_signals();
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

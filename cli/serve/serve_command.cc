// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_command.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/core_flags.h"
#include "cli/plan/plan_command.h"
#include "cli/plan/plan_machines.h"
#include "cli/programs/live_command.h"
#include "cli/programs/observed_program.h"
#include "cli/serve/serve_control.h"
#include "cli/serve/serve_hang_up.h"
#include "cli/serve/serve_log.h"
#include "cli/serve/serve_loop.h"
#include "cli/serve/serve_program.h"
#include "cli/serve/serve_record.h"
#include "cli/serve/serve_reload.h"
#include "cli/serve/serve_service.h"
#include "cli/serve/serve_status.h"
#include "cli/serve/serve_switchml.h"
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

const std::string kTitle = "tributary serve";

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
  std::string records;  ///< File for the program's records.
  std::string ipfix;
  std::string listen;  ///< Empty: the protocol's default.
  std::vector<std::string> ports;
  CoreFlags cores;
  std::string json_path;
  uint32_t linger_s = 0;
};

int refuse(const Error& error) { return cli::refuse(kTitle, error); }

Result<void> check_cores(uint32_t cores) {
  if ((cores & (cores - 1)) == 0) return {};
  return failure(fmt::format("--cores {} is not allowed; allowed: a power of two up to {}", cores,
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
  if (!listen) return failure_in("--listen: ", listen.error());
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
  config.cores = flags.cores.cores;
  config.spin_us = flags.cores.spin_us;
  config.cpu_percent = flags.cores.cpu_percent;
  config.buffer_mb = flags.cores.buffer_mb;
  if (const auto good = check_cores(config.cores); !good) return tl::unexpected(good.error());
  if (const auto good = check_record_flags(flags.command, flags.record, config.cores); !good) {
    return tl::unexpected(good.error());
  }
  config.record_events = flags.record.on ? flags.record.events : 0;
  config.record_name = flags.control.name;
  auto devices = devices_of(flags);
  if (!devices) return tl::unexpected(devices.error());
  config.devices = *std::move(devices);
  auto cpus = cpus_of(flags.cores);
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
  return config;
}

/// Returns the settings that every server has, for GET /v1/config.
nlohmann::json common_settings(const ServeFlags& flags, const std::vector<int>& cpus) {
  const std::string& http = flags.control.http;
  return {{"cores", flags.cores.cores},
          {"spin_us", flags.cores.spin_us},
          {"cpu_percent", flags.cores.cpu_percent},
          {"cpus", cpus},
          {"buffer_mb", flags.cores.buffer_mb},
          {"http", http.empty() ? nlohmann::json() : nlohmann::json(http)}};
}

nlohmann::json settings_of(const ServeFlags& flags, const server::ApplianceConfig& config) {
  nlohmann::json settings = common_settings(flags, config.cpus);
  settings["memory_mb"] = config.memory_mb;
  settings["local"] = config.local;
  settings["directory"] = config.directory.has_value();
  settings["linger_s"] = flags.linger_s;
  settings["record_events"] = config.record_events;
  settings["record_stall_ms"] = in_milliseconds(flags.record.stall_after);
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
  Service service{.title = kTitle,
                  .what = fmt::format("{} {} at {}", config->jobs.size(),
                                      config->jobs.size() == 1 ? "job" : "jobs", listen),
                  .cores = config->cores,
                  .log = &log.log(),
                  .json_path = flags.json_path,
                  .linger_s = flags.linger_s,
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
  return serve(service);
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
  const auto cpus = cpus_of(flags.cores);
  if (!cpus) return tl::unexpected(cpus.error());
  const auto listen = listen_address(flags);
  if (!listen) return tl::unexpected(listen.error());
  const auto devices = devices_of(flags);
  if (!devices) return tl::unexpected(devices.error());
  if (const auto good = check_cores(flags.cores.cores); !good) {
    return tl::unexpected(good.error());
  }
  return with_switchml_flags({.listen = *listen,
                              .devices = *devices,
                              .cores = flags.cores.cores,
                              .spin_us = flags.cores.spin_us,
                              .cpu_percent = flags.cores.cpu_percent,
                              .cpus = *cpus,
                              .memory_mb = flags.appliance.memory_mb,
                              .buffer_mb = flags.cores.buffer_mb},
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
  Service service{
      .title = kTitle,
      .what = what,
      .cores = config->cores,
      .log = &log.log(),
      .json_path = flags.json_path,
      .warnings = appliance.warnings(),
      .stats = [&appliance] { return appliance.stats(); },
      .status = [&appliance] { return status_line(appliance.stats()); },
      .stop = [&appliance] { appliance.stop(); },
      .reload = on_hang_up(flags.settings, log.log(), [&control] { (*control)->reload_tokens(); })};
  add_control(service, **control, log, {{"listen", listen}, {"sessions", config->sessions.size()}});
  return serve(service);
}

/// Refuses flags that only aggregators have.
Result<void> check_program_flags(const ServeFlags& flags) {
  for (const char* flag :
       {"--job", "--protocol", "--listen", "--workers", "--linger-s", "--local", "--memory-mb",
        "--record", "--record-dir", "--record-events", "--record-stall-ms"}) {
    if (flags.command.count(flag) > 0) {
      return failure(fmt::format("{} cannot be combined with --program", flag));
    }
  }
  if (const char* flag = given_plan_flag(flags.command); flag != nullptr) {
    return failure(fmt::format("{} cannot be combined with --program", flag));
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
  const auto cpus = cpus_of(flags.cores);
  if (!cpus) return refuse(cpus.error());
  const LiveFlags live_flags{.ports = flags.ports,
                             .cores = flags.cores,
                             .log = flags.log,
                             .records = flags.records,
                             .ipfix = flags.ipfix,
                             .json_path = flags.json_path};
  const auto started = LiveProgram::start(*chosen->program, chosen->settings, live_flags);
  if (!started) return refuse(started.error());
  LiveProgram& live = **started;
  ObservedProgram observed(live.name(), live.place(), live.running());
  server::ServerLog log(flags.log, observed);
  Service service = live.service(kTitle, live_flags, log.log());
  nlohmann::json settings = common_settings(flags, *cpus);
  settings["program"] = flags.program;
  auto control = ServedControl::start(flags.control, {.server = observed,
                                                      .log = log,
                                                      .name = live.name(),
                                                      .settings = settings,
                                                      .program = service.stats});
  if (!control) return refuse(control.error());
  service.reload =
      on_hang_up(flags.settings, log.log(), [&control] { (*control)->reload_tokens(); });
  add_control(service, **control, log, {{"program", live.name()}, {"ports", live.place()}});
  return live.serve(service);
}

/// Refuses flags that only packet programs have.
Result<void> check_aggregator_flags(const ServeFlags& flags) {
  for (const char* flag : {"--records", "--ipfix"}) {
    if (flags.command.count(flag) > 0) {
      return failure(
          fmt::format("{} needs --program telemetry; --record is the flight recorder's", flag));
    }
  }
  return {};
}

int run(const ServeFlags& flags) {
  block_awaited_signals();
  if (!flags.program.empty()) return run_program(flags);
  if (const auto good = check_aggregator_flags(flags); !good) return refuse(good.error());
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
          fmt::format("Run this packet program inline between two --port, or back out of a single "
                      "one, instead of an aggregator. {}; see tributary programs",
                      kInlinePortHelp))
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
  add_core_flags(*command, flags->cores,
                 "Polling cores: of an aggregator a power of two, of a program any number");
  add_on_off(*command, "--local", flags->appliance.local,
             "Serve workers of this machine over shared memory, beside UDP sockets (trio-ml)");
  add_control_flags(*command, flags->control);
  add_log_flags(*command, flags->log);
  add_record_flags(*command, flags->record);
  add_record_files(*command, flags->records, flags->ipfix, " (--program telemetry)");
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

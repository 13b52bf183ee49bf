// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_control.h"

#include "cli/settings.h"
#include "cli/version.h"
#include "server/control/api.h"
#include "server/control/socket_place.h"

namespace tributary::cli {
namespace {

nlohmann::json settings_of(const server::ApplianceConfig& config) {
  return {{"cores", config.cores},
          {"spin_us", config.spin_us},
          {"cpu_percent", config.cpu_percent},
          {"cpus", config.cpus},
          {"memory_mb", config.memory_mb},
          {"buffer_mb", config.buffer_mb},
          {"local", config.local},
          {"directory", config.directory.has_value()}};
}

Result<std::unique_ptr<control::HttpServer>> listen(const std::string& name,
                                                    control::HttpServer::Handler handler) {
  if (const auto good = control::check_name(name); !good) return tl::unexpected(good.error());
  const auto folder = control::writable_folder(control::socket_folders());
  if (!folder) return tl::unexpected(folder.error());
  return control::HttpServer::start(control::socket_path(*folder, name), std::move(handler));
}

}  // namespace

void add_control_flags(CLI::App& command, ControlFlags& flags) {
  add_on_off(command, "--api", flags.api,
             "Answer tributary status, who and job, and HTTP, on a Unix socket (trio-ml)");
  command
      .add_option("--name", flags.name,
                  "Name of this server's control socket, as in tributary status --name; default: "
                  "the address and port of --listen")
      ->type_name("NAME");
}

bool uses_control_flags(const CLI::App& command) {
  return command.count("--api") > 0 || command.count("--name") > 0;
}

Result<std::unique_ptr<ServedControl>> ServedControl::start(const ControlFlags& flags,
                                                            server::Appliance& appliance,
                                                            server::ServerLog& log) {
  std::unique_ptr<ServedControl> served(new ServedControl(appliance, log));
  if (!flags.api && !flags.name.empty()) {
    return failure("--name needs --api on: it names the control socket");
  }
  if (!flags.api) return served;
  const std::string name = flags.name.empty() ? appliance.local().to_string() : flags.name;
  const control::Api api({.name = name,
                          .version = std::string(program_version()),
                          .snapshot = [&appliance] { return appliance.snapshot(); },
                          .is_ready = [served = served.get()] { return !served->ending_.load(); },
                          .settings = settings_of(appliance.config()),
                          .jobs = &served->jobs_,
                          .log = [&log] { return log.recent(); }});
  auto server =
      listen(name, [api](const control::Request& request) { return api.handle(request); });
  if (server) {
    served->server_ = *std::move(server);
  } else if (!flags.name.empty()) {
    return tl::unexpected(server.error());
  } else {
    served->warning_ =
        server.error().text + "; tributary status, who and job cannot reach this server";
  }
  return served;
}

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_control.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

#include "auth/secret.h"
#include "cli/settings.h"
#include "cli/version.h"
#include "io/udp/socket_address.h"
#include "server/control/pages.h"
#include "server/socket_place.h"

namespace tributary::cli {
namespace {

/// The name of the systemd credential (LoadCredential=) that may hold the token.
constexpr const char* kTokenCredential = "tributary-http-token";
/// Begins errors about the credential.
constexpr const char* kOfCredential = "the token (of a service: /etc/tributary/NAME.http-token) in";

/// Returns the folder of this service's credentials; empty outside a service.
std::string credentials_folder() {
  const char* const folder = std::getenv("CREDENTIALS_DIRECTORY");
  return folder == nullptr ? "" : folder;
}

/// Returns whether systemd provides the file. An ACL lets the service's user read it, and the ACL's
/// mask shows as the group's bits.
bool is_credential(const std::string& path) {
  const std::string folder = credentials_folder();
  return !folder.empty() && std::filesystem::path(path).parent_path() == folder;
}

/// Returns the path of the token that systemd provides; empty for none.
std::string token_credential() {
  if (credentials_folder().empty()) return {};
  std::string path = fmt::format("{}/{}", credentials_folder(), kTokenCredential);
  return auth::has_credential(path) ? path : std::string();
}

Result<std::unique_ptr<control::HttpServer>> listen(const std::string& name,
                                                    control::HttpServer::Handler handler) {
  if (const auto good = server::check_name(name); !good) return tl::unexpected(good.error());
  const auto folder = server::writable_folder(server::socket_folders());
  if (!folder) return tl::unexpected(folder.error());
  return control::HttpServer::start(server::socket_path(*folder, name), std::move(handler));
}

}  // namespace

void add_control_flags(CLI::App& command, ControlFlags& flags) {
  add_on_off(command, "--api", flags.api,
             "Answer tributary status, who and job, and HTTP, on a Unix socket");
  command
      .add_option("--name", flags.name,
                  "Name of this server's control socket, as in tributary status --name; default: "
                  "the address and port of --listen, or the name of --program")
      ->type_name("NAME");
  command
      .add_option("--http", flags.http,
                  "Serve the dashboard and the control API over TCP: a port of 127.0.0.1, or "
                  "ADDRESS:PORT, which needs --http-token-file, as do commands")
      ->type_name("[ADDRESS:]PORT");
  command
      .add_option("--http-token-file", flags.http_token_file,
                  "File with tokens, mode 600; every request to --http must carry one of them. A "
                  "line is TOKEN [read|write] [LAST_DAY]. Default: the systemd credential "
                  "tributary-http-token, if there is one")
      ->type_name("FILE");
}

Result<void> ServedControl::start_socket(const std::string& name) {
  auto server =
      listen(name, [this](const control::Request& request) { return api_->handle(request); });
  if (!server) return tl::unexpected(server.error());
  server_ = *std::move(server);
  return {};
}

Result<void> ServedControl::start_http(const ControlFlags& flags) {
  const auto at = control::parse_http_address(flags.http);
  if (!at) return tl::unexpected(at.error());
  control::TokenGate::TokenSource tokens;
  const std::string path =
      flags.http_token_file.empty() ? token_credential() : flags.http_token_file;
  if (!path.empty()) {
    auto file = control::TokenFile::open(
        flags.http_token_file.empty() ? kOfCredential : "--http-token-file", path,
        [this](const auto& error) { note_tokens(error); },
        /*group_may_read=*/is_credential(path));
    if (!file) return tl::unexpected(file.error());
    token_file_ = *std::move(file);
    tokens = [this] { return token_file_->tokens(); };
  } else if (!io::is_loopback(*at)) {
    return failure(
        fmt::format("--http {}: other machines can reach this address; give --http-token-file, or "
                    "as a service write /etc/tributary/NAME.http-token and restart, or give an "
                    "address of 127.0.0.0/8",
                    flags.http));
  }
  gate_ = std::make_unique<control::TokenGate>(std::move(tokens), at->port);
  const auto handle = [this](const control::Request& request) {
    return gate_->handle(
        request, [this](const auto& passed) { return control::Pages(*api_).handle(passed); });
  };
  auto server = control::HttpServer::start(*at, handle, &connections_);
  if (!server) return failure_in("--http: ", server.error());
  http_ = *std::move(server);
  url_ = fmt::format("http://{}/", at->to_string());
  return {};
}

void ServedControl::note_tokens(const std::optional<Error>& error) {
  if (error) {
    log_.write(server::LogLevel::kError, "tokens_not_read", {{"error", error->text}});
  } else {
    log_.write(server::LogLevel::kInfo, "tokens_read");
  }
}

void ServedControl::reload_tokens() {
  if (token_file_ != nullptr) token_file_->read_again();
}

Result<std::unique_ptr<ServedControl>> ServedControl::start(const ControlFlags& flags,
                                                            const Controlled& controlled) {
  std::unique_ptr<ServedControl> served(new ServedControl(controlled.log.log()));
  if (controlled.jobs != nullptr) served->jobs_.emplace(*controlled.jobs, served->log_);
  if (!flags.api && !flags.name.empty()) {
    return failure("--name needs --api on: it names the control socket");
  }
  if (flags.http.empty() && !flags.http_token_file.empty()) {
    return failure("--http-token-file needs --http");
  }
  if (!flags.api && flags.http.empty()) return served;
  const std::string name = flags.name.empty() ? controlled.name : flags.name;
  const auto snapshot = [&server = controlled.server] { return server.snapshot(); };
  std::function<control::GateCounters()> http_counters;
  if (!flags.http.empty()) {
    http_counters = [served = served.get()] { return served->gate_->counters(); };
  }
  served->api_ = std::make_unique<control::Api>(
      control::ApiConfig{.name = name,
                         .version = std::string(program_version()),
                         .snapshot = snapshot,
                         .is_ready = [served = served.get()] { return !served->ending_.load(); },
                         .settings = controlled.settings,
                         .jobs = served->jobs_ ? &*served->jobs_ : nullptr,
                         .history = &served->history_,
                         .http_counters = http_counters,
                         .connections = flags.http.empty() ? nullptr : &served->connections_,
                         .program = controlled.program,
                         .log = &controlled.log,
                         .recorder = controlled.recorder});
  if (!flags.http.empty()) {
    if (const auto started = served->start_http(flags); !started) {
      return tl::unexpected(started.error());
    }
  }
  if (flags.api) {
    const auto started = served->start_socket(name);
    if (!started && !flags.name.empty()) return tl::unexpected(started.error());
    if (!started) {
      served->warning_ =
          started.error().text + "; tributary status, who and job cannot reach this server";
    }
  }
  served->observer_ = std::make_unique<control::Observer>(snapshot, served->history_);
  return served;
}

void add_control(Service& service, ServedControl& control, server::ServerLog& log,
                 const server::LogFields& started) {
  if (!control.path().empty()) service.what += ", control socket " + control.path();
  if (!control.url().empty()) service.what += ", dashboard " + control.url();
  if (!control.warning().empty()) service.warnings.push_back(control.warning());
  service.stats = [stats = std::move(service.stats), &log] {
    nlohmann::json json = stats();
    json["log"] = log.stats();
    return json;
  };
  service.on_ready = [cores = service.cores, &log, started] {
    server::LogFields fields = started;
    fields["cores"] = cores;
    fields["version"] = std::string(program_version());
    log.log().write(server::LogLevel::kInfo, "server_started", fields);
  };
  service.begin_end = [&control, &log] {
    control.set_ending();
    log.log().write(server::LogLevel::kInfo, "server_stopping");
  };
  service.stop = [stop = std::move(service.stop), &log] {
    stop();
    log.stop();
  };
}

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>

#include "cli/settings.h"
#include "cli/version.h"
#include "io/udp/socket_address.h"
#include "server/control/pages.h"
#include "server/control/socket_place.h"

namespace tributary::cli {
namespace {

constexpr std::array<const char*, 4> kControlFlags{"--api", "--name", "--http",
                                                   "--http-token-file"};

/// The name of the systemd credential (LoadCredential=) that may hold the token.
constexpr const char* kTokenCredential = "tributary-http-token";
/// The credential's text if the operator has made no token (SetCredential= in tributary@.service).
constexpr std::string_view kNoToken = "none";

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
  std::ifstream file(path, std::ios::binary);
  std::string text(kNoToken.size() + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text.empty() || text == kNoToken ? std::string() : path;
}

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
  command
      .add_option("--http", flags.http,
                  "Serve the dashboard and the control API over TCP: a port of 127.0.0.1, or "
                  "ADDRESS:PORT, which needs --http-token-file, as do commands (trio-ml)")
      ->type_name("[ADDRESS:]PORT");
  command
      .add_option("--http-token-file", flags.http_token_file,
                  "File with tokens, mode 600; every request to --http must carry one of them. A "
                  "line is TOKEN [read|write] [LAST_DAY]. Default: the systemd credential "
                  "tributary-http-token, if there is one")
      ->type_name("FILE");
}

bool uses_control_flags(const CLI::App& command) {
  return std::ranges::any_of(kControlFlags,
                             [&command](const char* flag) { return command.count(flag) > 0; });
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
        "--http-token-file", path, [this](const auto& error) { note_tokens(error); },
        /*group_may_read=*/is_credential(path));
    if (!file) return tl::unexpected(file.error());
    token_file_ = *std::move(file);
    tokens = [this] { return token_file_->tokens(); };
  } else if (!io::is_loopback(*at)) {
    return failure(
        fmt::format("--http {}: other machines can reach this address; give --http-token-file, or "
                    "an address of 127.0.0.0/8",
                    flags.http));
  }
  gate_ = std::make_unique<control::TokenGate>(std::move(tokens), at->port);
  auto server = control::HttpServer::start(*at, [this](const control::Request& request) {
    return gate_->handle(
        request, [this](const auto& passed) { return control::Pages(*api_).handle(passed); });
  });
  if (!server) return failure("--http: " + server.error().text);
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
                                                            server::Appliance& appliance,
                                                            server::ServerLog& log,
                                                            server::RecordControl* recorder) {
  std::unique_ptr<ServedControl> served(new ServedControl(appliance, log));
  if (!flags.api && !flags.name.empty()) {
    return failure("--name needs --api on: it names the control socket");
  }
  if (flags.http.empty() && !flags.http_token_file.empty()) {
    return failure("--http-token-file needs --http");
  }
  if (!flags.api && flags.http.empty()) return served;
  const std::string name = flags.name.empty() ? appliance.local().to_string() : flags.name;
  const auto snapshot = [&appliance] { return appliance.snapshot(); };
  std::function<control::GateCounters()> http_counters;
  if (!flags.http.empty()) {
    http_counters = [served = served.get()] { return served->gate_->counters(); };
  }
  served->api_ = std::make_unique<control::Api>(
      control::ApiConfig{.name = name,
                         .version = std::string(program_version()),
                         .snapshot = snapshot,
                         .is_ready = [served = served.get()] { return !served->ending_.load(); },
                         .settings = settings_of(appliance.config()),
                         .jobs = &served->jobs_,
                         .history = &served->history_,
                         .http_counters = http_counters,
                         .log = &log,
                         .recorder = recorder});
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

}  // namespace tributary::cli

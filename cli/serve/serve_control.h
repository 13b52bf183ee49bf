// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of `tributary serve` that offers the control API, whatever the server serves: its
/// flags, and the start of the API.
///
/// Threads: One, at the start and the end.
/// Errors:  A name given with --name and an address given with --http must be usable. Without a
///          name the server goes on without a control socket and warns.
/// Tests:   tests/system/control_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/serve/serve_loop.h"
#include "server/control/api.h"
#include "server/control/history.h"
#include "server/control/http_server.h"
#include "server/control/token_gate.h"
#include "server/log/logged_jobs.h"
#include "server/log/server_log.h"
#include "server/observed_server.h"

namespace tributary::cli {

struct ControlFlags {
  bool api = true;
  std::string name;  ///< Empty: the address and port of --listen.
  std::string http;  ///< Empty: no TCP port.
  std::string http_token_file;
};

void add_control_flags(CLI::App& command, ControlFlags& flags);

/// A running server as the API needs it. Everything must outlive the API.
struct Controlled {
  server::ObservedServer& server;
  server::ServerLog& log;
  std::string name;                              ///< Name of the control socket, without --name.
  nlohmann::json settings;                       ///< For /v1/config.
  server::JobControl* jobs = nullptr;            ///< Null: the server has no jobs.
  server::RecordControl* recorder = nullptr;     ///< Null: there is none.
  std::function<nlohmann::json()> program = {};  ///< Counters of a packet program; empty: none.
};

/// The control API of a running server.
class ServedControl {
 public:
  static Result<std::unique_ptr<ServedControl>> start(const ControlFlags& flags,
                                                      const Controlled& controlled);
  /// Returns the path of the socket; empty if there is none.
  [[nodiscard]] std::string path() const { return server_ ? server_->path() : std::string(); }
  /// Returns the reason why the server goes on without a socket; empty if it has one or needs none.
  [[nodiscard]] const std::string& warning() const { return warning_; }
  /// Returns the address of the dashboard; empty if there is none.
  [[nodiscard]] const std::string& url() const { return url_; }
  /// Lets /readyz answer that the server takes no new workers.
  void set_ending() { ending_.store(true); }
  /// Reads the tokens of --http-token-file again.
  void reload_tokens();
  [[nodiscard]] bool is_ending() const { return ending_.load(); }
  /// The commands of an operator; each has a line in the log. @pre The server has jobs.
  [[nodiscard]] server::JobControl& jobs() { return *jobs_; }

 private:
  explicit ServedControl(server::Log& log) : log_(log) {}
  Result<void> start_socket(const std::string& name);
  Result<void> start_http(const ControlFlags& flags);
  void note_tokens(const std::optional<Error>& error);

  server::Log& log_;
  std::optional<server::LoggedJobs> jobs_;
  std::atomic<bool> ending_{false};
  std::string warning_;
  std::string url_;
  control::History history_;
  control::ConnectionCounters connections_{};       ///< Counters of the TCP port.
  std::unique_ptr<control::TokenFile> token_file_;  ///< Null: no TCP port, or no token.
  std::unique_ptr<control::TokenGate> gate_;        ///< Null: no TCP port.
  std::unique_ptr<control::Api> api_;
  // Declared last, so that their threads end before the members above, which they use.
  std::unique_ptr<control::Observer> observer_;
  std::unique_ptr<control::HttpServer> server_;  ///< Null: no control socket.
  std::unique_ptr<control::HttpServer> http_;    ///< Null: no TCP port.
};

/// Lets a server's life appear in its log and API: adds the log's counters, warnings and addresses,
/// and the lines of start and end. Everything must outlive `service`.
/// @param started Fields of the line "server_started".
void add_control(Service& service, ServedControl& control, server::ServerLog& log,
                 const server::LogFields& started);

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of `tributary serve` that offers the control API: its flags, and the start of the API.
///
/// Threads: One, at the start and the end.
/// Errors:  A name given with --name and an address given with --http must be usable. Without a
///          name the server goes on without a control socket and warns.
/// Tests:   tests/system/control_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "server/appliance.h"
#include "server/control/api.h"
#include "server/control/history.h"
#include "server/control/http_server.h"
#include "server/control/token_gate.h"
#include "server/log/logged_jobs.h"
#include "server/log/server_log.h"

namespace tributary::cli {

struct ControlFlags {
  bool api = true;
  std::string name;  ///< Empty: the address and port of --listen.
  std::string http;  ///< Empty: no TCP port.
  std::string http_token_file;
};

void add_control_flags(CLI::App& command, ControlFlags& flags);

/// Tells whether the user has given one of the flags.
[[nodiscard]] bool uses_control_flags(const CLI::App& command);

/// The control API of a running appliance.
class ServedControl {
 public:
  /// @param appliance Must outlive this object, like `log` and `recorder`.
  /// @param recorder  Null: there is none.
  static Result<std::unique_ptr<ServedControl>> start(const ControlFlags& flags,
                                                      server::Appliance& appliance,
                                                      server::ServerLog& log,
                                                      server::RecordControl* recorder);
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
  /// The commands of an operator; each has a line in the log.
  [[nodiscard]] server::JobControl& jobs() { return jobs_; }

 private:
  ServedControl(server::Appliance& appliance, server::ServerLog& log)
      : log_(log.log()), jobs_(appliance, log.log()) {}
  Result<void> start_socket(const std::string& name);
  Result<void> start_http(const ControlFlags& flags);
  void note_tokens(const std::optional<Error>& error);

  server::Log& log_;
  server::LoggedJobs jobs_;
  std::atomic<bool> ending_{false};
  std::string warning_;
  std::string url_;
  control::History history_;
  std::unique_ptr<control::TokenFile> token_file_;  ///< Null: no TCP port, or no token.
  std::unique_ptr<control::TokenGate> gate_;        ///< Null: no TCP port.
  std::unique_ptr<control::Api> api_;
  // Their threads end first, because they use what stands above.
  std::unique_ptr<control::Observer> observer_;
  std::unique_ptr<control::HttpServer> server_;  ///< Null: no control socket.
  std::unique_ptr<control::HttpServer> http_;    ///< Null: no TCP port.
};

}  // namespace tributary::cli

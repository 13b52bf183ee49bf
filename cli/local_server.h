// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flags with which a command chooses a running server of this machine: the same for
/// `tributary status`, `who` and `job`.
///
/// Threads: One.
/// Errors:  One line with the cause and the remedy.
/// Tests:   tests/system/control_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"
#include "server/control/socket_place.h"

namespace tributary::cli {

struct ServerChoice {
  std::string name;  ///< Empty: the only server.
  bool as_json = false;
};

/// Adds --name.
void add_server_name(CLI::App& command, ServerChoice& choice);
/// Adds --json.
void add_json_output(CLI::App& command, ServerChoice& choice);

/// Finds the server by its control socket.
[[nodiscard]] Result<control::FoundServer> find_server(const ServerChoice& choice);

/// Prints "tributary COMMAND: TEXT". @return exit status 1.
int fail(const char* command, const Error& error);

}  // namespace tributary::cli

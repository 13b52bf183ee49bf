// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flags with which a command chooses a running server: the same for `tributary status`, `who`,
/// `job`, `log` and `record`.
///
/// Threads: One.
/// Errors:  One line with the cause and the remedy.
/// Tests:   tests/cli/operate/local_server_test.cc, tests/system/control_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/control/http_client.h"

namespace tributary::cli {

struct ServerChoice {
  std::string name;        ///< Name of a server on this machine; empty: the only one.
  std::string url;         ///< URL of a server's --http; empty: a server on this machine.
  std::string token_file;  ///< With a URL; empty: no token.
  bool as_json = false;
};

struct ChosenServer {
  std::string name;
  control::ServerAddress address;
};

/// Adds --name, --url and --token-file.
void add_server_name(CLI::App& command, ServerChoice& choice);
/// Adds --json.
void add_json_output(CLI::App& command, ServerChoice& choice);

/// Finds the server by its control socket, or takes the URL and the first token of the file.
[[nodiscard]] Result<ChosenServer> find_server(const ServerChoice& choice);

/// Finds the server and calls `ask` with it.
/// @param path Path of the answer that `ask` reads as JSON; the error names it.
/// @return the result of `ask`. After one line: kExitUsage if --url or --token-file is wrong; 1 if
///         there is no such server, or if its answer lacks a value or has one of another type.
int ask_server(const char* command, const ServerChoice& choice, const std::string& path,
               const std::function<int(const ChosenServer&)>& ask);

/// Prints "tributary COMMAND: TEXT", harmless to a terminal. @return exit status 1.
int fail(const char* command, const Error& error);

/// Prints text or JSON that holds texts of a server or recording. Its lines stay, and a terminal
/// sees no other control character. JSON keeps its value.
void print_answer(std::string_view text);

}  // namespace tributary::cli

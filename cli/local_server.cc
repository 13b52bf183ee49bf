// SPDX-License-Identifier: Apache-2.0
#include "cli/local_server.h"

#include "cli/console.h"

namespace tributary::cli {

void add_server_name(CLI::App& command, ServerChoice& choice) {
  command
      .add_option("--name", choice.name,
                  "Name of the server; needed only if several run on this machine")
      ->type_name("NAME");
}

void add_json_output(CLI::App& command, ServerChoice& choice) {
  command.add_flag("--json", choice.as_json, "Print JSON instead of text");
}

Result<control::FoundServer> find_server(const ServerChoice& choice) {
  return control::choose_server(control::find_servers(control::socket_folders()), choice.name);
}

int fail(const char* command, const Error& error) {
  print_error("tributary {}: {}\n", command, error.text);
  return 1;
}

}  // namespace tributary::cli

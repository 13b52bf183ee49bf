// SPDX-License-Identifier: Apache-2.0
#include "cli/program_main.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "cli/console.h"
#include "cli/programs/capture_command.h"
#include "cli/programs/live_command.h"
#include "cli/settings.h"

namespace tributary::cli {

int program_main(const programs::ServedProgram& program, int argc, const char* const* argv) {
  hold_standard_descriptors();
  const std::string name(program.name);
  CLI::App app(std::string(program.summary), name);
  int exit_code = 0;
  CLI::App* serve = nullptr;
  try {
    add_capture_run(app, program, name, exit_code);
    serve = app.add_subcommand("serve",
                               "Run the program on live traffic; serve --help lists its flags");
    add_live_run(*serve, program, name + " serve", exit_code);
  } catch (const CLI::OptionAlreadyAdded& twice) {
    print_error("{}: a key of kKeys has the name of a flag, or stands twice: {}\n", name,
                twice.what());
    return kExitUsage;
  }
  // With `serve` there is no capture, so the flags of a run over a capture are not required.
  serve->preparse_callback([&app](size_t) {
    for (CLI::Option* option : app.get_options()) option->required(false);
    app.callback({});
  });
  const auto ended = parse_command_line(app, argc, argv, std::cout, std::cerr);
  return end_output(ended.value_or(exit_code));
}

}  // namespace tributary::cli

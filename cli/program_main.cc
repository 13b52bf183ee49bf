// SPDX-License-Identifier: Apache-2.0
#include "cli/program_main.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "cli/capture_command.h"
#include "cli/console.h"
#include "cli/settings.h"

namespace tributary::cli {

int program_main(const programs::CaptureProgram& program, int argc, const char* const* argv) {
  const std::string name(program.name);
  CLI::App app(std::string(program.summary), name);
  int exit_code = 0;
  add_capture_run(app, program, name, exit_code);
  const auto ended = parse_command_line(app, argc, argv, std::cout, std::cerr);
  return end_output(ended.value_or(exit_code));
}

}  // namespace tributary::cli

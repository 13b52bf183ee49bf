// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a subcommand with arguments as a user gives them.
///
/// Tests: used by tests/cli/plan/plan_command_test.cc, traffic_command_test.cc
#pragma once

#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/settings.h"

namespace tributary::cli {

/// The end of a command.
struct Ran {
  int exit = 0;
  std::string out;  ///< Standard output.
  std::string err;  ///< Standard error.
};

/// @param name The subcommand.
/// @param add  Adds it to the program; sets the options.
/// @param run  Runs it with the options. Not called if the arguments are refused.
template <class Options>
Ran run_subcommand(const char* name, CLI::App* (*add)(CLI::App&, Options&),
                   int (*run)(const Options&, std::ostream&, std::ostream&),
                   const std::vector<std::string>& args) {
  CLI::App app("test", "tributary");
  app.require_subcommand(1);
  Options options;
  add(app, options);
  std::vector<const char*> argv{"tributary", name};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const auto ended = parse_command_line(app, static_cast<int>(argv.size()), argv.data(), out, err);
  const int exit = ended ? *ended : run(options, out, err);
  return {.exit = exit, .out = out.str(), .err = err.str()};
}

}  // namespace tributary::cli

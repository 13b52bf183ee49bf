// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/run_command.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/console.h"
#include "cli/programs/capture_command.h"
#include "programs/program.h"

namespace tributary::cli {
namespace {

using programs::Program;

int list_programs(const std::string& json_path) {
  auto json = nlohmann::ordered_json::array();
  for (const Program& program : programs::programs()) {
    print("{:<10} {}\n           uses {}\n           memory of each core: {}\n", program.name,
          program.summary, program.mechanisms, program.memory);
    json.push_back({{"name", program.name},
                    {"summary", program.summary},
                    {"mechanisms", program.mechanisms},
                    {"memory", program.memory}});
  }
  print(
      "Over a capture:  tributary run NAME --in FILE --out FILE\n"
      "On live traffic: tributary serve --program NAME --port PORT [--port PORT]\n"
      "  An interface as PORT needs root or cap_net_raw, a DPDK device (dpdk:) a build with DPDK, "
      "and "
      "a\n  tunnel (vxlan:) no rights. To check: tributary doctor --inline PORT [--inline PORT], "
      "or "
      "--dpdk PORT\n");
  return write_json("tributary programs", json_path, {{"programs", json}}) ? 0 : 1;
}

}  // namespace

void add_program_commands(CLI::App& app, int& exit_code) {
  CLI::App* list = app.add_subcommand("programs", "List the packet programs and what they need");
  const auto json_path = std::make_shared<std::string>();
  list->add_option("--json", *json_path, "Write the list to this file")->type_name("FILE");
  list->callback([json_path, &exit_code] { exit_code = list_programs(*json_path); });

  CLI::App* run_command = app.add_subcommand(
      "run", "Run a packet program over a capture, on this computer or on a modelled Trio chip");
  run_command->require_subcommand(1);
  for (const Program& program : programs::programs()) {
    CLI::App* command =
        run_command->add_subcommand(std::string(program.name), std::string(program.summary));
    add_capture_run(*command, program, fmt::format("tributary run {}", program.name), exit_code);
  }
}

}  // namespace tributary::cli

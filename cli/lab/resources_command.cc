// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/resources_command.h"

#include <fmt/format.h>

#include <memory>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/options.h"
#include "tofino/compile/resource_report.h"

namespace tributary::cli {
namespace {

struct ResourcesFlags {
  std::string program;
  std::string json_path;
  std::string svg_path;
};

int fail(const Error& error) {
  print_error("tributary lab resources: {}\n", error.text);
  return 1;
}

std::string_view passes_of(std::string_view program) {
  for (const tofino::NamedProgram& one : tofino::named_programs()) {
    if (one.name == program) return one.passes;
  }
  return {};
}

int run_resources(const ResourcesFlags& flags) {
  const auto program = tofino::make_named_program(flags.program);
  if (!program) return fail(program.error());
  const auto placement = tofino::place(*program);
  if (!placement) return fail(placement.error());
  print("{}", tofino::resources_text(*program, *placement));
  const std::string_view passes = passes_of(flags.program);
  if (!passes.empty()) print("\npasses: {}\n", passes);
  if (!flags.json_path.empty()) {
    auto json = tofino::resources_json(*program, *placement);
    json["passes"] = passes;
    if (auto good = write_result_file(flags.json_path, json.dump(2) + "\n"); !good) {
      return fail(good.error());
    }
  }
  if (!flags.svg_path.empty()) {
    const auto svg = tofino::resources_svg(*program, *placement);
    if (auto good = write_result_file(flags.svg_path, svg); !good) return fail(good.error());
  }
  return 0;
}

}  // namespace

void add_lab_resources(CLI::App& lab, int& exit_code) {
  CLI::App* command = lab.add_subcommand(
      "resources", "Show the resources that a pipeline program takes of a Tofino, stage by stage");
  const auto flags = std::make_shared<ResourcesFlags>();
  std::string programs = "Programs:\n";
  for (const tofino::NamedProgram& program : tofino::named_programs()) {
    programs += fmt::format("  {:<28}{}\n", program.name, program.description);
  }
  programs += "Example:\n  tributary lab resources switchml-64 --json resources.json";
  command->footer(programs);
  command->add_option("program", flags->program, "Program, one of those below")
      ->required()
      ->type_name("PROGRAM");
  command->add_option("--json", flags->json_path, "Write the report to this file")
      ->type_name("FILE");
  command->add_option("--svg", flags->svg_path, "Draw it into this file")->type_name("FILE");
  command->callback([flags, &exit_code] { exit_code = run_resources(*flags); });
}

}  // namespace tributary::cli

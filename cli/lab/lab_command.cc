// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/lab_command.h"

#include <fmt/format.h>

#include <string_view>

#include "base/text_table.h"
#include "cli/console.h"
#include "cli/lab/resources_command.h"
#include "cli/lab/step_command.h"
#include "cli/lab/trace_command.h"
#include "engine/model/parameters.h"
#include "lab/figures/figure.h"
#include "lab/scenario.h"
#include "lab/scenario_file.h"
#include "lab/sweep/model_digest.h"

namespace tributary::cli {
namespace {

void print_choices(std::string_view title, const std::vector<lab::Choice>& choices) {
  TextTable table({0, 1});
  for (const lab::Choice& choice : choices) table.add({choice.name, choice.description});
  print("{}\n{}\n", title, table.text());
}

/// Prints the parameters of the modelled machine's default generation.
void print_pfe_parameters() {
  const Result<engine::Parameters> parameters = engine::preset(lab::PfeSettings{}.generation);
  if (!parameters) return;  // Cannot happen: the default is a known generation.
  TextTable table({0, 2, 3});
  for (const engine::ParameterRow& row : engine::parameter_rows(*parameters)) {
    table.add({row.name, fmt::format("{}", row.value), row.unit, row.source});
  }
  print("PFE parameters (pfe.override = \"name=value,…\"), generation {}:\n{}\n",
        parameters->generation, table.text());
}

int run_list() {
  std::vector<lab::Choice> figures;
  for (const lab::Figure& figure : lab::figures()) {
    figures.push_back({.name = figure.name, .description = figure.description});
  }
  print_choices("Figures (tributary lab figure NAME):", figures);
  print_choices("Back ends (backend):", lab::backends());
  print_choices("Models (model.name):", lab::models());
  print_choices("Straggler patterns (straggler.pattern, several with + between):",
                lab::straggler_patterns());
  print_pfe_parameters();
  print("Scenario keys:\n{}\n", lab::scenario_help());
  print("Digest of the models, as in results: {}\n", lab::model_digest());
  return 0;
}

}  // namespace

void add_lab_list(CLI::App& lab, int& exit_code) {
  CLI::App* command = lab.add_subcommand(
      "list", "List figures, back ends, models, straggler patterns and scenario keys");
  command->callback([&exit_code] { exit_code = run_list(); });
}

void add_lab_command(CLI::App& app, int& exit_code) {
  CLI::App* lab = app.add_subcommand("lab", "Run experiments in virtual time");
  lab->require_subcommand(1);
  lab->footer(
      "Examples:\n"
      "  tributary lab list\n"
      "  tributary lab figure trio-15\n"
      "  tributary lab run experiments/slow_worker.toml --set straggler.probability=0.08\n"
      "  tributary lab sweep experiments/timeout_sweep.toml --out results\n"
      "  tributary lab compare --models vgg11");
  add_lab_list(*lab, exit_code);
  add_lab_figure(*lab, exit_code);
  add_lab_run(*lab, exit_code);
  add_lab_sweep(*lab, exit_code);
  add_lab_compare(*lab, exit_code);
  add_lab_report(*lab, exit_code);
  add_lab_resources(*lab, exit_code);
  add_lab_trace(*lab, exit_code);
  add_lab_step(*lab, exit_code);
  add_lab_faults(*lab, exit_code);
}

}  // namespace tributary::cli

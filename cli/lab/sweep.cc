// SPDX-License-Identifier: Apache-2.0
// `tributary lab sweep`: a scenario with lists of values, over cores and MPI ranks.

#include <memory>
#include <string>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/lab_command.h"
#include "cli/lab/options.h"
#include "cli/settings.h"
#include "lab/sweep/sweep_file.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab sweep";

struct SweepFlags {
  std::string sweep_path;
  std::vector<WrittenKey> settings;
  PointFlags points;
  std::string json_path;
  std::string csv_path;
};

int run_sweep(const SweepFlags& flags) {
  const Result<lab::Sweep> sweep = lab::load_sweep(flags.sweep_path, flags.settings);
  if (!sweep) return complain(kCommand, sweep.error().text, kExitUsage);
  const RanPoints ran = run_points_here(sweep->points, flags.points, kCommand);
  if (ran.exit_code) return *ran.exit_code;
  print("{}", lab::sweep_table(*sweep, ran.outcomes));
  if (!flags.json_path.empty()) {
    const auto written =
        write_result_file(flags.json_path, lab::sweep_json_lines(*sweep, ran.outcomes));
    if (!written) return complain(kCommand, written.error().text, 1);
  }
  if (!flags.csv_path.empty()) {
    const auto written = write_result_file(flags.csv_path, lab::sweep_csv(*sweep, ran.outcomes));
    if (!written) return complain(kCommand, written.error().text, 1);
  }
  return 0;
}

}  // namespace

void add_lab_sweep(CLI::App& lab, int& exit_code) {
  CLI::App* command = lab.add_subcommand("sweep", "A scenario with lists of values for some keys");
  const auto flags = std::make_shared<SweepFlags>();
  command->add_option("sweep", flags->sweep_path, "TOML file with a table [sweep]")
      ->required()
      ->type_name("FILE");
  command->add_option("--json", flags->json_path, "Write all results to this file, one a line")
      ->type_name("FILE");
  command->add_option("--csv", flags->csv_path, "Write the table to this file")->type_name("FILE");
  add_point_flags(*command, flags->points);
  add_scenario_flags(*command, flags->settings);
  command->footer(
      "Examples:\n"
      "  tributary lab sweep experiments/timeout_sweep.toml --out results --csv s.csv\n"
      "  mpirun -n 8 tributary lab sweep experiments/timeout_sweep.toml --out results\n"
      "Interrupt it and start it again: finished points are kept in --out.");
  command->callback([flags, &exit_code] { exit_code = run_sweep(*flags); });
}

}  // namespace tributary::cli

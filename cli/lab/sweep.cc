// SPDX-License-Identifier: Apache-2.0
// `tributary lab sweep`: a scenario with lists of values, over cores and MPI ranks.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/lab_command.h"
#include "cli/lab/options.h"
#include "cli/settings.h"
#include "lab/report/svg_plot.h"
#include "lab/sweep/sweep_file.h"
#include "lab/sweep/sweep_report.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab sweep";

struct SweepFlags {
  std::string sweep_path;
  std::vector<WrittenKey> settings;
  PointFlags points;
  std::string json_path;
  std::string csv_path;
  std::string svg_path;
};

Result<void> write_files(const SweepFlags& flags, const lab::Sweep& sweep,
                         const lab::RunnerOutcome& ran) {
  if (!flags.json_path.empty()) {
    auto written = write_result_file(flags.json_path, lab::sweep_json_lines(sweep, ran));
    if (!written) return written;
  }
  if (!flags.csv_path.empty()) {
    auto written = write_result_file(flags.csv_path, lab::sweep_csv(sweep, ran));
    if (!written) return written;
  }
  if (flags.svg_path.empty()) return {};
  return write_result_file(flags.svg_path, lab::render_svg(lab::sweep_plots(sweep, ran)));
}

int run_sweep(const SweepFlags& flags) {
  const Result<lab::Sweep> sweep = lab::load_sweep(flags.sweep_path, flags.settings);
  if (!sweep) return complain(kCommand, sweep.error().text, kExitUsage);
  if (!flags.svg_path.empty() && !lab::sweep_axis(*sweep)) {
    return complain(kCommand,
                    fmt::format("--svg {}: no key in [sweep] has numbers; allowed: with at least "
                                "one such key, which becomes the x axis",
                                flags.svg_path),
                    kExitUsage);
  }
  const RanWithFailures all = run_all_points_here(sweep->points, flags.points, kCommand);
  if (all.exit_code) return *all.exit_code;
  print("{}", lab::sweep_table(*sweep, all.ran));
  if (const auto written = write_files(flags, *sweep, all.ran); !written) {
    return complain(kCommand, written.error().text, 1);
  }
  if (all.ran.finished == 0) return complain(kCommand, "no point could run", 1);
  return 0;
}

}  // namespace

void add_lab_sweep(CLI::App& lab, int& exit_code) {
  CLI::App* command =
      lab.add_subcommand("sweep", "Run a scenario with lists of values for some keys");
  const auto flags = std::make_shared<SweepFlags>();
  command->add_option("sweep", flags->sweep_path, "TOML file with a table [sweep]")
      ->required()
      ->type_name("FILE");
  command->add_option("--json", flags->json_path, "Write all results to this file, one a line")
      ->type_name("FILE");
  command->add_option("--csv", flags->csv_path, "Write the table to this file")->type_name("FILE");
  command
      ->add_option("--svg", flags->svg_path,
                   "Write plots to this file, over the first key with numbers")
      ->type_name("FILE");
  add_point_flags(*command, flags->points);
  add_scenario_flags(*command, flags->settings);
  command->footer(
      "Examples:\n"
      "  tributary lab sweep experiments/timeout_sweep.toml --out results --csv s.csv\n"
      "  mpirun -n 8 tributary lab sweep experiments/timeout_sweep.toml --out results\n"
      "Interrupt it and start it again: finished points are kept in --out.\n"
      "Tables and plots show means over the seeds of `repeat`. A point that cannot run is\n"
      "skipped, and the table ends with its reason.\n"
      "Exit status: 0 if any point ran; 1 if none could, or a file cannot be written; 2 for a\n"
      "mistake in the file or the flags.");
  command->callback([flags, &exit_code] { exit_code = run_sweep(*flags); });
}

}  // namespace tributary::cli

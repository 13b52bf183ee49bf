// SPDX-License-Identifier: Apache-2.0
// `tributary lab figure`: a figure of a paper as table, JSON, CSV and SVG.
#include "lab/figures/figure.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/lab_command.h"
#include "cli/lab/options.h"
#include "cli/settings.h"
#include "lab/sweep/model_digest.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab figure";
constexpr uint64_t kIterationsMax = 1'000'000;
constexpr uint64_t kSeedsMax = 10'000;

struct FigureFlags {
  std::string name;
  lab::FigureOptions options;
  std::vector<WrittenKey> settings;
  PointFlags points;
  std::string json_path;
  std::string csv_path;
  std::string svg_path;
};

Result<void> write_files(const FigureFlags& flags, const lab::FigureOutcome& outcome) {
  if (!flags.json_path.empty()) {
    auto written = write_result_file(flags.json_path, lab::as_json(outcome.rows));
    if (!written) return written;
  }
  if (!flags.csv_path.empty()) {
    auto written = write_result_file(flags.csv_path, lab::as_csv(outcome.rows));
    if (!written) return written;
  }
  if (flags.svg_path.empty()) return {};
  return write_result_file(flags.svg_path, lab::render_svg(outcome.plots));
}

/// Returns the settings of the command line over the figure's own: "workers=2 iterations=5".
std::string settings_text(const FigureFlags& flags) {
  std::vector<std::string> all;
  for (const WrittenKey& key : flags.settings) {
    all.push_back(fmt::format("{}={}", key.name, key.text));
  }
  if (flags.options.iterations != 0) {
    all.push_back(fmt::format("iterations={}", flags.options.iterations));
  }
  return fmt::format("{}", fmt::join(all, " "));
}

/// Names each point that failed, with its reason. @return The exit status: 0 if none failed.
int complain_of_failures(std::span<const lab::Point> points, const lab::RunnerOutcome& ran) {
  if (ran.failed == 0) return 0;
  for (size_t i = 0; i < points.size(); i++) {
    if (ran.points[i]) continue;
    complain(kCommand, fmt::format("failed: {}: {}", points[i].label, ran.failures[i]), 1);
  }
  return complain(kCommand,
                  fmt::format("{} of {} points failed; rows that need them show \"-\", and means "
                              "leave out failed seeds",
                              ran.failed, points.size()),
                  1);
}

int run_figure(FigureFlags& flags) {
  const lab::Figure* figure = nullptr;
  std::vector<std::string> names;
  for (const lab::Figure& known : lab::figures()) {
    names.push_back(known.name);
    if (known.name == flags.name) figure = &known;
  }
  if (figure == nullptr) {
    return complain(kCommand, unknown_name("figure", flags.name, names), kExitUsage);
  }
  Result<std::vector<lab::Setting>> settings = lab::read_settings(flags.settings);
  if (!settings) return complain(kCommand, settings.error().text, kExitUsage);
  flags.options.settings = std::move(*settings);
  if (const auto good = lab::check_settings(*figure, flags.options); !good) {
    return complain(kCommand, good.error().text, kExitUsage);
  }
  const Result<std::vector<lab::Point>> points = figure->points(flags.options);
  if (!points) return complain(kCommand, points.error().text, kExitUsage);
  const RanWithFailures all = run_all_points_here(*points, flags.points, kCommand);
  if (all.exit_code) return *all.exit_code;
  lab::FigureOutcome outcome = figure->finish(flags.options, *points, all.ran.outcomes());
  const std::string changed = settings_text(flags);
  for (lab::FigureRow& row : outcome.rows) {
    row.settings = changed;
    row.model_digest = lab::model_digest();
  }
  print("{}: {} (seed {})\n\n{}\n", figure->name, figure->description, flags.options.seed,
        lab::as_table(outcome.rows, figure->x_name));
  for (const std::string& note : outcome.notes) print("{}\n", note);
  if (!changed.empty()) {
    print("Set over the figure's own: {}. The paper's values are those of its own set-up.\n",
          changed);
  }
  if (const Result<void> written = write_files(flags, outcome); !written) {
    return complain(kCommand, written.error().text, 1);
  }
  return complain_of_failures(*points, all.ran);
}

}  // namespace

void add_lab_figure(CLI::App& lab, int& exit_code) {
  CLI::App* command =
      lab.add_subcommand("figure", "Run a figure of a paper, with the paper's numbers beside it");
  const auto flags = std::make_shared<FigureFlags>();
  command->add_option("name", flags->name, "trio-13, switchml-3, …: see `tributary lab list`")
      ->required()
      ->type_name("NAME");
  add_uint(*command, "--iterations", flags->options.iterations, 0, kIterationsMax,
           "Iterations of each point; 0: the figure's own number");
  add_uint(*command, "--seeds", flags->options.seeds, 0, kSeedsMax,
           "Repetitions of each point that involves chance; 0: the figure's own (20)");
  command->add_flag("--quick", flags->options.quick, "Fewer points, iterations and seeds: seconds");
  command->add_option("--json", flags->json_path, "Write the rows to this file")->type_name("FILE");
  command->add_option("--csv", flags->csv_path, "Write the rows to this file")->type_name("FILE");
  command->add_option("--svg", flags->svg_path, "Write the plots to this file")->type_name("FILE");
  add_point_flags(*command, flags->points);
  add_uint(*command, "--seed", flags->options.seed, 0, INT64_MAX, "Seed of all random draws");
  add_set_flag(*command, flags->settings);
  command->footer(
      "Examples:\n"
      "  tributary lab figure trio-15 --json f.json --svg f.svg\n"
      "  tributary lab figure trio-13 --out results --set mitigation.timer_threads=10\n"
      "  mpirun -n 4 tributary lab figure trio-13 --out results\n"
      "A point that fails is named with its reason, and the others' rows are shown.\n"
      "Exit status: 0; 1 if a point failed or a file cannot be written; 2 for a mistake in the "
      "flags.");
  command->callback([flags, &exit_code] { exit_code = run_figure(*flags); });
}

}  // namespace tributary::cli

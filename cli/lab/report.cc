// SPDX-License-Identifier: Apache-2.0
// `tributary lab report`: a page with all figures of the papers.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/lab_command.h"
#include "cli/lab/options.h"
#include "cli/settings.h"
#include "cli/version.h"
#include "lab/figures/figure.h"
#include "lab/report/html_report.h"
#include "lab/sweep/model_digest.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab report";
constexpr uint64_t kSeedsMax = 10'000;

struct ReportFlags {
  std::string directory;
  std::vector<std::string> names;  ///< Empty for all.
  lab::FigureOptions options;
  uint32_t threads = 0;
};

/// A figure of the report, and the places of its points among those of all figures.
struct Part {
  const lab::Figure* figure;
  size_t first;
  size_t count;
};

Result<std::vector<const lab::Figure*>> figures_of(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const lab::Figure& figure : lab::figures()) known.push_back(figure.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return failure("--figures: " + unknown_name("figure", name, known));
    }
  }
  std::vector<const lab::Figure*> chosen;
  for (const lab::Figure& figure : lab::figures()) {
    const bool is_named = std::find(names.begin(), names.end(), figure.name) != names.end();
    if (names.empty() || is_named) chosen.push_back(&figure);
  }
  return chosen;
}

/// Returns the flags that decide the figures' values, each with a blank before it.
std::string value_flags(const lab::FigureOptions& options) {
  std::string text;
  if (options.quick) text += " --quick";
  if (options.seeds != 0) text += fmt::format(" --seeds {}", options.seeds);
  if (options.seed != lab::FigureOptions().seed) text += fmt::format(" --seed {}", options.seed);
  return text;
}

/// Makes one figure and writes its files. @param points The figure's own.
Result<lab::ReportFigure> make_part(const ReportFlags& flags, const Part& part,
                                    std::span<const lab::Point> points,
                                    const lab::RunnerOutcome& ran,
                                    std::span<const lab::PointOutcome> outcomes) {
  const std::string& name = part.figure->name;
  const lab::FigureOptions options = flags.options;
  lab::ReportFigure made{.name = name,
                         .description = part.figure->description,
                         .command = fmt::format("tributary lab figure {}{} --json {}.json", name,
                                                value_flags(options), name),
                         .x_name = part.figure->x_name,
                         .points = part.count};
  const auto [first, last] = std::minmax_element(
      points.begin(), points.end(),
      [](const auto& a, const auto& b) { return a.scenario.seed < b.scenario.seed; });
  made.seed_first = first->scenario.seed;
  made.seed_last = last->scenario.seed;
  for (size_t i = 0; i < part.count; i++) {
    if (const auto& ended = ran.points[part.first + i]) {
      made.warnings.add_run(points[i].label, ended->result.warnings);
      continue;
    }
    made.failures.push_back(fmt::format("{}: {}", points[i].label, ran.failures[part.first + i]));
  }
  lab::FigureOutcome figure = part.figure->finish(options, points, outcomes);
  for (lab::FigureRow& row : figure.rows) row.model_digest = lab::model_digest();
  made.has_plots = !figure.plots.empty();
  const std::string path = fmt::format("{}/{}", flags.directory, name);
  auto written = write_result_file(path + ".json", lab::as_json(figure.rows));
  if (written && made.has_plots) {
    made.command += fmt::format(" --svg {}.svg", name);
    written = write_result_file(path + ".svg", lab::render_svg(figure.plots));
  }
  if (!written) return tl::unexpected(written.error());
  made.rows = std::move(figure.rows);
  made.notes = std::move(figure.notes);
  return made;
}

/// Writes all files. @return The exit status.
int write_report(const ReportFlags& flags, std::span<const Part> parts,
                 std::span<const lab::Point> points, const lab::RunnerOutcome& ran) {
  // Without the directory's name: reports in two places have equal bytes.
  lab::Report report{
      .command = fmt::format("{} --out FOLDER{}", kCommand, value_flags(flags.options)),
      .version = std::string(program_version()),
      .commit = std::string(program_commit()),
      .figures = {}};
  if (!flags.names.empty()) {
    report.command += fmt::format(" --figures {}", fmt::join(flags.names, ","));
  }
  size_t failed = 0;
  const std::vector<lab::PointOutcome> outcomes = ran.outcomes();
  for (const Part& part : parts) {
    auto made = make_part(flags, part, points.subspan(part.first, part.count), ran,
                          std::span(outcomes).subspan(part.first, part.count));
    if (!made) return complain(kCommand, made.error().text, 1);
    failed += made->failures.empty() ? 0 : 1;
    report.figures.push_back(*std::move(made));
  }
  const std::string page = flags.directory + "/index.html";
  if (const auto written = write_result_file(page, lab::report_html(report)); !written) {
    return complain(kCommand, written.error().text, 1);
  }
  print("{}: {} figures, {} runs\n", page, parts.size(), points.size());
  if (failed == 0) return 0;
  return complain(kCommand,
                  fmt::format("{} of {} figures lack points that failed; {} says why", failed,
                              parts.size(), page),
                  1);
}

int run_report(const ReportFlags& flags) {
  const Result<std::vector<const lab::Figure*>> figures = figures_of(flags.names);
  if (!figures) return complain(kCommand, figures.error().text, kExitUsage);
  std::error_code error;
  std::filesystem::create_directories(flags.directory, error);
  if (error) {
    return complain(kCommand,
                    fmt::format("--out {}: cannot be made: {}; allowed: a folder, or a path "
                                "where one can be made",
                                flags.directory, error.message()),
                    kExitUsage);
  }
  std::vector<Part> parts;
  std::vector<lab::Point> points;
  for (const lab::Figure* figure : *figures) {
    Result<std::vector<lab::Point>> own = figure->points(flags.options);
    if (!own) return complain(kCommand, own.error().text, kExitUsage);
    parts.push_back({.figure = figure, .first = points.size(), .count = own->size()});
    std::move(own->begin(), own->end(), std::back_inserter(points));
  }
  // All figures' points in one run: cores do not wait for each other at the end of each figure.
  const RanWithFailures all = run_all_points_here(
      points, {.threads = flags.threads, .directory = flags.directory + "/points"}, kCommand);
  if (all.exit_code) return *all.exit_code;
  return write_report(flags, parts, points, all.ran);
}

}  // namespace

void add_lab_report(CLI::App& lab, int& exit_code) {
  CLI::App* command = lab.add_subcommand(
      "report", "Write an HTML page with all figures, their values and commands");
  const auto flags = std::make_shared<ReportFlags>();
  command
      ->add_option("--out", flags->directory,
                   "Folder for index.html, the figures' SVG and JSON files, and finished points")
      ->required()
      ->type_name("FOLDER");
  command
      ->add_option("--figures", flags->names,
                   "Figures to include, with commas between; default: all")
      ->delimiter(',')
      ->type_name("LIST");
  command->add_flag("--quick", flags->options.quick,
                    "Fewer points, iterations and seeds: a minute or two on two cores");
  add_uint(*command, "--seeds", flags->options.seeds, 0, kSeedsMax,
           "Repetitions of each point that involves chance; 0: each figure's own (20)");
  add_uint(*command, "--seed", flags->options.seed, 0, INT64_MAX, "Seed of all random draws");
  add_threads_flag(*command, flags->threads);
  command->footer(
      "Examples:\n"
      "  tributary lab report --out report --quick\n"
      "  tributary lab report --out report --figures trio-15,switchml-3\n"
      "All figures without --quick take an hour of CPU time or more; --threads shares it among "
      "cores.\n"
      "Interrupt it and start it again: finished points are kept in FOLDER/points. Those of "
      "another\n"
      "version of the lab's models run once more.");
  command->callback([flags, &exit_code] { exit_code = run_report(*flags); });
}

}  // namespace tributary::cli

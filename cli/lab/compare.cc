// SPDX-License-Identifier: Apache-2.0
// `tributary lab compare`: back ends side by side, in every combination of models, workers, losses
// and stragglers.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/lab_command.h"
#include "cli/lab/options.h"
#include "cli/settings.h"
#include "lab/compare/compare_report.h"
#include "lab/compare/comparison.h"
#include "lab/scenario_file.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab compare";
constexpr uint64_t kSeedsMax = 10'000;

/// The flag of a list, and its text on the command line.
struct ListFlag {
  const char* name;
  const char* help;
  std::string text = {};
};

struct CompareFlags {
  std::string path;
  std::array<ListFlag, 6> lists{
      {{"backends", "Back ends to compare, with commas between; see `tributary lab list`"},
       {"models", "Networks, with commas between"},
       {"workers", "Numbers of workers"},
       {"loss", "Probabilities that a packet is lost, on each link"},
       {"straggling", "Probabilities that a delay point delays (pattern slow-worker)"},
       {"baseline", "Back end that speed-ups refer to; default: the first"}}};
  uint32_t seeds = 1;
  std::vector<WrittenKey> settings;
  PointFlags points;
  std::string json_path;
  std::string csv_path;
  std::string svg_path;
};

Result<lab::Comparison> comparison_of(const CompareFlags& flags) {
  lab::CompareLists lists = lab::default_compare_lists();
  std::vector<WrittenKey> keys;
  if (!flags.path.empty()) {
    Result<std::vector<WrittenKey>> read = lab::read_keys(flags.path);
    if (!read) return tl::unexpected(read.error());
    keys = std::move(*read);
    if (const auto good = lab::check_command(keys, flags.path, "compare"); !good) {
      return tl::unexpected(good.error());
    }
    if (auto taken = lab::take_compare_keys(keys, lists); !taken) {
      return tl::unexpected(taken.error());
    }
  }
  for (const ListFlag& flag : flags.lists) {
    if (flag.text.empty()) continue;
    const auto set =
        lab::set_compare_list(lists, flag.name, flag.text, fmt::format("--{}", flag.name));
    if (!set) return tl::unexpected(set.error());
  }
  keys.insert(keys.end(), flags.settings.begin(), flags.settings.end());
  return lab::make_comparison(lists, keys, flags.seeds);
}

Result<void> write_files(const CompareFlags& flags, const lab::Comparison& comparison,
                         std::span<const lab::CompareRow> rows) {
  if (!flags.json_path.empty()) {
    auto written = write_result_file(flags.json_path, lab::compare_json(comparison, rows));
    if (!written) return written;
  }
  if (!flags.csv_path.empty()) {
    auto written = write_result_file(flags.csv_path, lab::compare_csv(rows));
    if (!written) return written;
  }
  if (flags.svg_path.empty()) return {};
  return write_result_file(flags.svg_path, lab::render_svg(lab::compare_plots(rows)));
}

int run_compare(const CompareFlags& flags) {
  const Result<lab::Comparison> comparison = comparison_of(flags);
  if (!comparison) return complain(kCommand, comparison.error().text, kExitUsage);
  const RanWithFailures all = run_all_points_here(comparison->points, flags.points, kCommand);
  if (all.exit_code) return *all.exit_code;
  const std::vector<lab::CompareRow> rows = lab::compare_rows(*comparison, all.ran);
  print("{}", lab::compare_text(*comparison, rows));
  if (const auto written = write_files(flags, *comparison, rows); !written) {
    return complain(kCommand, written.error().text, 1);
  }
  if (all.ran.finished == 0) return complain(kCommand, "no back end could run", 1);
  return 0;
}

}  // namespace

void add_lab_compare(CLI::App& lab, int& exit_code) {
  CLI::App* command =
      lab.add_subcommand("compare", "Compare back ends: time, traffic, memory, bottleneck");
  const auto flags = std::make_shared<CompareFlags>();
  command
      ->add_option("comparison", flags->path,
                   "TOML file: keys of a scenario and a table [compare] with the lists below")
      ->type_name("FILE");
  for (ListFlag& flag : flags->lists) {
    command->add_option(fmt::format("--{}", flag.name), flag.text, flag.help)->type_name("LIST");
  }
  add_uint(
      *command, "--seeds", flags->seeds, 1, kSeedsMax,
      "Runs of each cell that involves chance, with seeds from the key seed on; times then have "
      "standard errors");
  command->add_option("--json", flags->json_path, "Write the rows to this file")->type_name("FILE");
  command->add_option("--csv", flags->csv_path, "Write the rows to this file")->type_name("FILE");
  command->add_option("--svg", flags->svg_path, "Write the plots to this file")->type_name("FILE");
  add_point_flags(*command, flags->points);
  add_set_flag(*command, flags->settings);
  command->footer(
      "Examples:\n"
      "  tributary lab compare\n"
      "  tributary lab compare --models vgg11 --straggling 0,0.08,0.16 --svg c.svg\n"
      "  tributary lab compare --backends waiting-switch,trio-ml --straggling 0.16 --seeds 20\n"
      "  tributary lab compare --backends ring,ideal --workers 4,8,16 --set link.rate_gbps=10\n"
      "  tributary lab compare experiments/compare.toml --out results --json c.json\n"
      "  tributary lab compare telemetry --quick");
  add_lab_compare_telemetry(*command, exit_code);
  // CLI11 runs this callback after a subcommand's.
  command->callback([command, flags, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = run_compare(*flags);
  });
}

}  // namespace tributary::cli

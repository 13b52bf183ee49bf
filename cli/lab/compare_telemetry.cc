// SPDX-License-Identifier: Apache-2.0
// `tributary lab compare telemetry`: records and timers on Trio beside a sketch on Tofino.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/lab_command.h"
#include "cli/lab/options.h"
#include "cli/settings.h"
#include "lab/telemetry/telemetry_comparison.h"
#include "lab/telemetry/telemetry_report.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab compare telemetry";
/// The trace and the memory sizes of --quick: a second instead of a minute.
constexpr uint32_t kQuickFlows = 2'000;
constexpr uint64_t kQuickPackets = 50'000;
constexpr double kQuickRate = 50'000;
const char* const kQuickMemories = "16K,256K";

struct TelemetryFlags {
  lab::TelemetryComparison settings;
  bool has_flows = false;
  bool has_packets = false;
  bool has_rate = false;
  bool quick = false;
  std::string memories;
  std::string json_path;
  uint32_t threads = 0;
};

Result<lab::TelemetryComparison> settings_of(const TelemetryFlags& flags) {
  lab::TelemetryComparison settings = flags.settings;
  if (flags.quick) {
    if (!flags.has_flows) settings.flows = kQuickFlows;
    if (!flags.has_packets) settings.packets = kQuickPackets;
    if (!flags.has_rate) settings.rate = kQuickRate;
  }
  std::string memories = flags.memories;
  if (memories.empty()) memories = flags.quick ? kQuickMemories : lab::kTelemetryMemories;
  auto parsed = lab::parse_memories("--memory", memories);
  if (!parsed) return tl::unexpected(parsed.error());
  settings.memories = *std::move(parsed);
  return settings;
}

int run_compare_telemetry(const TelemetryFlags& flags) {
  const auto settings = settings_of(flags);
  if (!settings) return complain(kCommand, settings.error().text, kExitUsage);
  const auto result = lab::run_telemetry(*settings, flags.threads);
  if (!result) return complain(kCommand, result.error().text, kExitUsage);
  print("{}", lab::telemetry_text(*settings, *result));
  if (flags.json_path.empty()) return 0;
  const auto written = write_result_file(flags.json_path, lab::telemetry_json(*settings, *result));
  return written ? 0 : complain(kCommand, "--json " + written.error().text, 1);
}

/// Refuses flags of `lab compare` before the subcommand: they would have no effect.
Result<void> check_flags_before(const CLI::App& compare) {
  for (const CLI::Option* option : compare.get_options()) {
    if (option->count() == 0) continue;
    return failure(fmt::format("{} stands before 'telemetry'; allowed: flags after it, see --help",
                               option->get_name()));
  }
  return {};
}

}  // namespace

void add_lab_compare_telemetry(CLI::App& compare, int& exit_code) {
  CLI::App* command = compare.add_subcommand(
      "telemetry",
      "Find the largest flows of one trace by records and timers on Trio, and by a "
      "sketch (PRECISION) on Tofino");
  const auto flags = std::make_shared<TelemetryFlags>();
  lab::TelemetryComparison& settings = flags->settings;
  CLI::Option* flows = add_uint(*command, "--flows", settings.flows, 1, lab::kTelemetryFlowsMax,
                                "Flows in progress at any time");
  CLI::Option* packets = add_uint(*command, "--packets", settings.packets, 1,
                                  lab::kTelemetryPacketsMax, "Packets of the trace");
  add_decimal(*command, "--zipf", settings.zipf, 0, traffic::kZipfMax,
              "Exponent of the Zipf distribution of flow sizes");
  CLI::Option* rate = add_decimal(*command, "--rate", settings.rate, 1, lab::kTelemetryRateMax,
                                  "Packets per second");
  add_decimal(*command, "--churn", settings.churn, 0, traffic::kRateMax,
              "Flows that end, and begin, per second");
  add_uint(*command, "--seed", settings.seed, 0, INT64_MAX,
           "Seed; equal settings and seeds write equal files");
  add_uint(*command, "--top", settings.top, 1, lab::kTelemetryTopMax,
           "Flows at least as large as the one of this rank are to be found");
  add_milliseconds(*command, "--period-ms", settings.period, 1, lab::kTelemetryPeriodMsMax,
                   "Time between two reports: Trio's timeouts, and the reads of Tofino's slots");
  command
      ->add_option("--memory", flags->memories,
                   fmt::format("Memory sizes, with commas between; K and M are 2^10 and 2^20 "
                               "bytes (default {})",
                               lab::kTelemetryMemories))
      ->type_name("LIST");
  command->add_flag("--quick", flags->quick,
                    fmt::format("A small run: {} flows, {} packets, {} a second, memory {}",
                                kQuickFlows, kQuickPackets, kQuickRate, kQuickMemories));
  command->add_option("--json", flags->json_path, "Write the rows to this file")->type_name("FILE");
  add_threads_flag(*command, flags->threads, "Rows at the same time; 0: as many as cores");
  command->footer(
      "Examples:\n"
      "  tributary lab compare telemetry --quick\n"
      "  tributary lab compare telemetry --zipf 1.3 --top 50 --memory 8K,32K,128K --json t.json");
  command->callback([&compare, flags, flows, packets, rate, &exit_code] {
    if (const auto checked = check_flags_before(compare); !checked) {
      exit_code = complain(kCommand, checked.error().text, kExitUsage);
      return;
    }
    flags->has_flows = flows->count() > 0;
    flags->has_packets = packets->count() > 0;
    flags->has_rate = rate->count() > 0;
    exit_code = run_compare_telemetry(*flags);
  });
}

}  // namespace tributary::cli

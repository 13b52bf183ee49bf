// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/trace_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/lab/options.h"
#include "cli/lab/run_progress.h"
#include "cli/settings.h"
#include "lab/inspect/accounting.h"
#include "lab/inspect/run_tracer.h"
#include "lab/run.h"
#include "lab/scenario_file.h"
#include "lab/trace/time_text.h"
#include "lab/trace/trace_log.h"

namespace tributary::cli {
namespace {

constexpr const char* kCommand = "tributary lab trace";
constexpr const char* kIterationsKey = "iterations";

struct TraceFlags {
  std::string scenario_path;
  std::vector<WrittenKey> settings;
  lab::TraceFilter filter;
  std::string from;
  std::string to;
  std::string kinds;
  std::vector<std::string> at;
  uint64_t limit = 200;
  bool by_time = false;
  bool links = false;
  bool accounting = false;
  bool unpriced = false;
  std::string json_path;
};

/// The checked flags.
struct Wanted {
  lab::Scenario scenario;
  lab::TraceFilter filter;
  lab::RunTracerConfig tracer;
};

Result<Instant> time_of(const char* flag, const std::string& text) {
  const auto time = lab::parse_time(text);
  if (!time) return failure(fmt::format("{}: {}", flag, time.error().text));
  return Instant(*time);
}

Result<lab::TraceFilter> filter_of(const TraceFlags& flags) {
  lab::TraceFilter filter = flags.filter;
  if (!flags.from.empty()) {
    const auto from = time_of("--from", flags.from);
    if (!from) return tl::unexpected(from.error());
    filter.from = *from;
  }
  if (!flags.to.empty()) {
    const auto to = time_of("--to", flags.to);
    if (!to) return tl::unexpected(to.error());
    filter.to = *to;
  }
  if (filter.to < filter.from) {
    return failure(fmt::format("--to={} is before --from={}", flags.to, flags.from));
  }
  const auto kinds = lab::parse_trace_kinds(flags.kinds);
  if (!kinds) return failure("--kind: " + kinds.error().text);
  filter.kinds = *kinds;
  return filter;
}

/// A link has one tap, so it is traced, captured or counted.
Result<void> check_taps(const TraceFlags& flags, const lab::Scenario& scenario) {
  const auto refused = [&](const std::string& link, const char* key) -> Result<void> {
    const bool traced = flags.links || flags.filter.node == link;
    if (link.empty() || !traced) return {};
    return failure(
        fmt::format("link '{}': a trace (--links, --node) and {} cannot go together: a link has "
                    "one tap",
                    link, key));
  };
  for (const auto& capture : scenario.captures) {
    if (auto good = refused(capture.link, "capture"); !good) return good;
  }
  return refused(scenario.timeline.link, "timeline.link");
}

Result<Wanted> wanted_of(const TraceFlags& flags) {
  const auto scenario =
      read_scenario(flags.scenario_path, trace_settings(flags.scenario_path, flags.settings));
  if (!scenario) return tl::unexpected(scenario.error());
  const auto filter = filter_of(flags);
  if (!filter) return tl::unexpected(filter.error());
  Wanted wanted{.scenario = *scenario, .filter = *filter, .tracer = {}};
  if (auto good = check_taps(flags, *scenario); !good) return tl::unexpected(good.error());
  wanted.tracer.node = filter->node;
  wanted.tracer.links = flags.links;
  for (const std::string& text : flags.at) {
    const auto at = time_of("--at", text);
    if (!at) return tl::unexpected(at.error());
    wanted.tracer.at.push_back(*at);
  }
  std::sort(wanted.tracer.at.begin(), wanted.tracer.at.end());
  wanted.tracer.request.block = filter->block;
  wanted.tracer.request.slot = filter->slot;
  wanted.tracer.request.rows_max = flags.limit;
  // Snapshots may lie later than events of interest.
  wanted.tracer.to = filter->to;
  return wanted;
}

int write_out(const TraceFlags& flags, const std::string& text, const std::string& json) {
  print("{}", text);
  if (flags.json_path.empty()) return 0;
  const auto written = write_result_file(flags.json_path, json);
  return written ? 0 : complain(kCommand, written.error().text, 1);
}

int show_snapshots(const TraceFlags& flags, const lab::RunTracer& tracer) {
  std::string text;
  std::string json_lines;
  for (const auto& [at, snapshot] : tracer.snapshots()) {
    text += (text.empty() ? "" : "\n") + lab::snapshot_text(snapshot, at);
    json_lines += lab::snapshot_json_line(snapshot, at);
  }
  const int exit_code = write_out(flags, text, json_lines);
  if (exit_code != 0 || tracer.missed().empty()) return exit_code;
  return complain(kCommand,
                  fmt::format("--at={} is past the run's end at {}",
                              lab::time_text(tracer.missed().front().since_start()),
                              lab::time_text(tracer.ended_at().since_start())),
                  1);
}

int show_trace(const TraceFlags& flags, const lab::TraceLog& log, const lab::RunTracer& tracer) {
  if (log.events().empty()) {
    const std::string end = lab::time_text(tracer.ended_at().since_start());
    return complain(kCommand,
                    fmt::format("none of {} events is what you asked for; {}the run ended at {}",
                                log.seen_count(), log.selector().values_seen_text(), end),
                    1);
  }
  return write_out(flags, flags.by_time ? trace_text_by_time(log) : trace_text(log),
                   trace_json_lines(log));
}

Result<lab::RunResult> run_with_progress(const lab::Scenario& scenario,
                                         lab::RunObserver& observer) {
  RunProgress progress(&observer);
  return lab::run_scenario(scenario, nullptr, progress.observer());
}

/// Measures the programs' instructions instead of tracing packets.
int show_accounting(const TraceFlags& flags) {
  const lab::TraceFilter& filter = flags.filter;
  if (filter.packet || filter.job || filter.block || filter.slot || filter.port || filter.source ||
      !flags.from.empty() || !flags.to.empty() || !flags.kinds.empty()) {
    return complain(kCommand,
                    "--accounting and --unpriced measure whole runs, so they take no selection of "
                    "packets or times; --node selects an aggregator",
                    kExitUsage);
  }
  const auto scenario =
      read_scenario(flags.scenario_path, trace_settings(flags.scenario_path, flags.settings));
  if (!scenario) return complain(kCommand, scenario.error().text, kExitUsage);
  lab::AccountingObserver observer(flags.filter.node);
  const auto result = run_with_progress(*scenario, observer);
  if (!result) return complain(kCommand, result.error().text, 1);
  std::string text;
  for (const lab::NodeAccounting& node : observer.nodes()) {
    text += text.empty() ? "" : "\n";
    text += flags.accounting ? accounting_text(node) : unpriced_text(node);
  }
  return write_out(
      flags, text,
      flags.accounting ? accounting_json(observer.nodes()) : unpriced_json(observer.nodes()));
}

int run_trace(const TraceFlags& flags) {
  if (flags.accounting || flags.unpriced) return show_accounting(flags);
  const auto wanted = wanted_of(flags);
  if (!wanted) return complain(kCommand, wanted.error().text, kExitUsage);
  const bool snapshots = !wanted->tracer.at.empty();
  lab::TraceLog log(wanted->filter, flags.limit);
  lab::RunTracer tracer(wanted->tracer, snapshots ? nullptr : &log);
  const auto result = run_with_progress(wanted->scenario, tracer);
  // Print the events of a failed run, too, before its error.
  const bool failed = !result && !tracer.had_enough();
  const bool begun = tracer.ended_at() != Instant() || log.seen_count() > 0;
  if (failed && !begun) return complain(kCommand, result.error().text, 1);
  const int exit_code = snapshots ? show_snapshots(flags, tracer) : show_trace(flags, log, tracer);
  return failed ? complain(kCommand, result.error().text, 1) : exit_code;
}

void add_number(CLI::App& command, const char* name, std::optional<uint64_t>& value,
                const char* help) {
  add_key(command, name, {.type = KeyType::kUint}, "", help,
          [&value](const KeyValue& written) { value = std::get<uint64_t>(written); });
}

}  // namespace

std::vector<WrittenKey> trace_settings(const std::string& scenario_path,
                                       std::vector<WrittenKey> settings) {
  const bool counts = std::any_of(settings.begin(), settings.end(),
                                  [](const WrittenKey& key) { return key.name == kIterationsKey; });
  if (!counts && scenario_path.empty()) {
    settings.push_back({.name = kIterationsKey, .text = "1", .where = ""});
  }
  return settings;
}

void add_lab_trace(CLI::App& lab, int& exit_code) {
  CLI::App* command =
      lab.add_subcommand("trace", "Trace packets inside a scenario's machines, step by step");
  const auto flags = std::make_shared<TraceFlags>();
  command->add_option("scenario", flags->scenario_path, "TOML file; without it the paper's set-up")
      ->type_name("FILE");
  command->add_option("--node", flags->filter.node, "Only this aggregator, or this link")
      ->type_name("NAME");
  add_number(*command, "--packet", flags->filter.packet, "Only the Nth packet at its node");
  add_number(*command, "--job", flags->filter.job, "Only what this job's packets cause");
  add_number(*command, "--block", flags->filter.block, "Only what this block's packets cause");
  add_number(*command, "--slot", flags->filter.slot,
             "Only this place of the window, or slot of the pool");
  add_number(*command, "--port", flags->filter.port, "Only packets at this port");
  add_number(*command, "--source", flags->filter.source, "Only packets of this source");
  command->add_option("--from", flags->from, "Events from this time on, as in 12us");
  command->add_option("--to", flags->to, "Events up to this time; the run ends there");
  command->add_option("--kind", flags->kinds, "Only these kinds of events, as in request,reply")
      ->type_name("KIND,…");
  CLI::Option* const at =
      command
          ->add_option("--at", flags->at,
                       "Show snapshots of the machines at this time instead; repeatable")
          ->type_name("TIME")
          ->allow_extra_args(false);
  add_uint(*command, "--limit", flags->limit, 1, 1'000'000, "Lines at most; the rest is counted");
  command->add_flag("--by-time", flags->by_time, "In order of time, not packet by packet");
  command->add_flag("--links", flags->links, "Also what each link carries");
  CLI::Option* const accounting =
      command
          ->add_flag(
              "--accounting", flags->accounting,
              "Show the budget and the use of each instruction instead, and the list of --unpriced")
          ->excludes(at);
  command
      ->add_flag("--unpriced", flags->unpriced,
                 "Show the code that runs without a price between two instructions instead")
      ->excludes(at)
      ->excludes(accounting);
  command
      ->add_option("--json", flags->json_path,
                   "Write JSON lines to this file; with --accounting or --unpriced one JSON list")
      ->type_name("FILE");
  add_scenario_flags(*command, flags->settings);
  command->footer(
      "Without a file and without --iterations, the run has one iteration.\n\n"
      "Examples:\n"
      "  tributary lab trace --workers 2 --iterations 1 --block 3\n"
      "  tributary lab trace --workers 2 --iterations 1 --packet 7 --json packet7.jsonl\n"
      "  tributary lab trace experiments/slow_worker.toml --at 150ms\n"
      "  tributary lab trace --workers 4 --iterations 1 --accounting");
  command->callback([flags, &exit_code] { exit_code = run_trace(*flags); });
}

}  // namespace tributary::cli

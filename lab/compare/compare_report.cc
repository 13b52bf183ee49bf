// SPDX-License-Identifier: Apache-2.0
#include "lab/compare/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "base/text_table.h"
#include "lab/backends/backend.h"
#include "lab/report/figure_row.h"
#include "lab/workload/ddp_workload.h"

namespace tributary::lab {
namespace {

/// A speed-up that a paper states for a back end over another one.
struct PaperSpeedup {
  Backend backend;
  std::array<Backend, 2> baselines;
  Model model;
  uint32_t workers;
  double straggling;
  double speedup;
  const char* source;
};
constexpr std::array<Backend, 2> kSwitchMl{Backend::kSwitchml256, Backend::kWaitingSwitch};
constexpr PaperSpeedup kPapers[] = {
    {Backend::kTrioMl, kSwitchMl, Model::kResnet50, 6, 0.16, 1.72, "Trio paper §6.2"},
    {Backend::kTrioMl, kSwitchMl, Model::kDensenet161, 6, 0.16, 1.75, "Trio paper §6.2"},
    {Backend::kTrioMl, kSwitchMl, Model::kVgg11, 6, 0.16, 1.80, "Trio paper §6.2"}};

void add_paper(CompareRow& row, Backend baseline) {
  for (const PaperSpeedup& paper : kPapers) {
    const bool same_pair = row.backend == paper.backend &&
                           std::find(paper.baselines.begin(), paper.baselines.end(), baseline) !=
                               paper.baselines.end();
    if (!same_pair || row.at.model != paper.model || row.at.workers != paper.workers ||
        row.at.loss > 0 || row.at.straggling != paper.straggling) {
      continue;
    }
    row.paper = paper.speedup;
    row.paper_source = paper.source;
  }
}

double sum_over_workers(const RunResult& result, uint64_t WorkerResult::*count) {
  double sum = 0;
  for (const WorkerResult& worker : result.workers) sum += static_cast<double>(worker.*count);
  return sum;
}

/// A resource of the aggregators: one of their parts.
struct Resource {
  PartKind part;
  const char* key;   ///< In JSON and CSV.
  const char* head;  ///< In the table.
  bool adds_up;      ///< Over aggregators; else the largest is shown.
};
constexpr Resource kResources[] = {
    {PartKind::kSlots, "slots", "slots", true},
    {PartKind::kMemory, "memory_mb", "memory_MB", true},
    {PartKind::kStages, "stages", "stages", false},
    {PartKind::kStatefulAlus, "stateful_alus", "stateful_ALUs", false},
    {PartKind::kSramBlocks, "sram_blocks", "SRAM_blocks", false},
    {PartKind::kPassesPerPacket, "passes_per_packet", "passes/packet", false},
    {PartKind::kRecirculated, "recirculated_gbps", "recirculated_Gbit/s", true},
    {PartKind::kSweepingPackets, "sweeping_packets", "sweeping_packets", true},
    {PartKind::kSlotsGivenUp, "slots_given_up", "given_up", true},
    {PartKind::kInstructionsPerPacket, "instructions_per_packet", "instructions/packet", false},
    {PartKind::kThreadsInUse, "threads_share", "threads_in_use", false},
    {PartKind::kRmwBanksInUse, "rmw_share", "RMW_in_use", false}};

std::vector<std::optional<double>> resources_of(std::span<const AggregatorResult> aggregators) {
  std::vector<std::optional<double>> values;
  for (const Resource& resource : kResources) {
    std::optional<double> value;
    for (const AggregatorResult& aggregator : aggregators) {
      for (const AggregatorResult::Part& part : aggregator.parts) {
        if (part.kind != resource.part) continue;
        value = resource.adds_up ? value.value_or(0) + part.value
                                 : std::max(value.value_or(part.value), part.value);
      }
    }
    values.push_back(value);
  }
  return values;
}

/// Returns |U| / B, times the least share of the tensor that the back end's workers send.
double least_comm_ms(const Scenario& scenario, const BackendKind& backend) {
  constexpr double kBitsPerElement = 32;
  const double rate =
      static_cast<double>(std::min(scenario.link.rate_bits_per_s, scenario.host.nic_bits_per_s));
  const double elements = static_cast<double>(workload_of(scenario).elements()) * scenario.train;
  return elements * kBitsPerElement / rate * 1e3 * least_traffic(scenario, backend);
}

CompareRow make_row(const CompareCase& at, const CompareCell& cell, const RunResult* result) {
  CompareRow row{.at = at, .backend = cell.backend, .refusal = cell.refusal};
  if (result == nullptr) return row;
  const double iterations = cell.scenario.iterations;
  row.iteration_ms = as_ms(result->mean_iteration);
  row.least_comm_ms = least_comm_ms(cell.scenario, backend_kind(cell.backend));
  const WorkerResult& worker = result->workers.at(0);
  row.sent_mb = static_cast<double>(worker.wire_bytes_sent) / 1e6 / iterations;
  row.received_mb = static_cast<double>(worker.wire_bytes_received) / 1e6 / iterations;
  row.degraded_fraction = result->degraded_fraction();
  row.retransmissions = sum_over_workers(*result, &WorkerResult::retransmissions);
  row.skipped_fraction = result->skipped_fraction();
  row.missed_fraction = result->missed_fraction();
  row.aggregators = result->aggregators;
  row.resources = resources_of(row.aggregators);
  row.bottleneck = result->bottleneck;
  row.seed = cell.scenario.seed;
  row.train = cell.scenario.train;
  return row;
}

std::string case_text(const CompareCase& at) {
  return fmt::format("{}, {} workers, loss {} %, straggling {} %", name_of(at.model), at.workers,
                     short_number(at.loss * 100), short_number(at.straggling * 100));
}

std::string shown(const std::optional<double>& value, double factor = 1) {
  return value ? short_number(*value * factor) : "-";
}

Json or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

/// Returns the aggregators' resources, with a line for each back end that has any and without empty
/// columns. Empty if no back end has any.
std::string resource_table(std::span<const CompareRow> rows) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < std::size(kResources); i++) {
    const bool filled = std::any_of(rows.begin(), rows.end(), [i](const CompareRow& row) {
      return i < row.resources.size() && row.resources[i].has_value();
    });
    if (filled) columns.push_back(i);
  }
  if (columns.empty()) return {};
  TextTable table({0});
  std::vector<std::string> line{"in the aggregators"};
  for (const size_t i : columns) line.emplace_back(kResources[i].head);
  table.add(std::move(line));
  for (const CompareRow& row : rows) {
    line = {name_of(row.backend)};
    bool any = false;
    for (const size_t i : columns) {
      const auto value = i < row.resources.size() ? row.resources[i] : std::nullopt;
      any = any || value.has_value();
      line.push_back(shown(value));
    }
    if (any) table.add(std::move(line));
  }
  return table.text() + "\n";
}

/// Returns the rows of a case as tables, then a line for each back end: the refusal or the
/// bottleneck.
std::string case_table(Backend baseline, std::span<const CompareRow> rows) {
  TextTable table({0});
  table.add({"back end", "iteration_ms", "speed-up", "paper", "least_comm_ms", "sent_MB",
             "received_MB", "degraded_%", "skipped_%", "missed_%", "sent_again"});
  std::string after;
  for (const CompareRow& row : rows) {
    if (!row.refusal.empty()) {
      after += fmt::format("  {} was not run: {}\n", name_of(row.backend), row.refusal);
      continue;
    }
    table.add({name_of(row.backend) + (row.backend == baseline ? " *" : ""),
               shown(row.iteration_ms), shown(row.speedup), shown(row.paper),
               shown(row.least_comm_ms), shown(row.sent_mb), shown(row.received_mb),
               shown(row.degraded_fraction, 100), shown(row.skipped_fraction, 100),
               shown(row.missed_fraction, 100), shown(row.retransmissions)});
    after += fmt::format("  {}: {}\n", name_of(row.backend), row.bottleneck);
  }
  return fmt::format("{}\n{}\n{}{}", case_text(rows.front().at), table.text(), resource_table(rows),
                     after);
}

/// A candidate for a plot's x axis.
struct Axis {
  const char* label;
  double factor;
  double (*value)(const CompareCase& at);
};
constexpr Axis kAxes[] = {
    {"straggling probability (%)", 100, [](const CompareCase& at) { return at.straggling; }},
    {"loss on each link (%)", 100, [](const CompareCase& at) { return at.loss; }},
    {"workers", 1, [](const CompareCase& at) { return static_cast<double>(at.workers); }}};

/// Returns the axis with the most values, the first of equals.
const Axis& longest_axis(std::span<const CompareRow> rows) {
  const Axis* longest = &kAxes[0];
  size_t most = 0;
  for (const Axis& axis : kAxes) {
    std::map<double, bool> values;
    for (const CompareRow& row : rows) values[axis.value(row.at)] = true;
    if (values.size() > most) longest = &axis;
    most = std::max(most, values.size());
  }
  return *longest;
}

/// Returns the values of a case that are not on the axis.
std::string rest_of(const CompareCase& at, const Axis& axis) {
  std::string text = name_of(at.model);
  for (const Axis& other : kAxes) {
    if (&other == &axis) continue;
    text += fmt::format(", {} {}", other.label, short_number(other.value(at) * other.factor));
  }
  return text;
}

}  // namespace

std::vector<CompareRow> compare_rows(const Comparison& comparison,
                                     std::span<const PointOutcome> outcomes) {
  std::vector<CompareRow> rows;
  std::map<size_t, double> baseline_ms;
  for (const CompareCell& cell : comparison.cells) {
    const RunResult* result = cell.point ? &outcomes[*cell.point].result : nullptr;
    rows.push_back(make_row(comparison.cases[cell.case_index], cell, result));
    if (cell.backend == comparison.baseline && rows.back().iteration_ms) {
      baseline_ms[cell.case_index] = *rows.back().iteration_ms;
    }
  }
  for (size_t i = 0; i < rows.size(); i++) {
    const auto baseline = baseline_ms.find(comparison.cells[i].case_index);
    if (baseline == baseline_ms.end() || !rows[i].iteration_ms) continue;
    rows[i].speedup = baseline->second / *rows[i].iteration_ms;
    add_paper(rows[i], comparison.baseline);
  }
  return rows;
}

std::string compare_text(const Comparison& comparison, std::span<const CompareRow> rows) {
  std::string text;
  const size_t of_case = rows.size() / comparison.cases.size();
  for (size_t i = 0; i < comparison.cases.size(); i++) {
    text += case_table(comparison.baseline, rows.subspan(i * of_case, of_case)) + "\n";
  }
  text += fmt::format(
      "* speed-up: its time over the back end's. least_comm_ms: |U| / B times what a worker must\n"
      "  send at least: 1 for switches and servers of their own, 2 (n - 1) / n for rings and\n"
      "  colocated servers (SwitchML paper §3). sent, received: worker 0's cable, an iteration.\n"
      "  degraded: results without every worker; skipped: of blocks that some worker did not\n"
      "  compute, to catch up; missed: sums that a late worker can get nowhere.\n"
      "  passes, recirculated: through the Tofino's pipes; SwitchML has two sets of the slots.\n");
  std::map<std::string, bool> sources;
  for (const CompareRow& row : rows) {
    if (row.paper) sources[row.paper_source] = true;
  }
  for (const auto& [source, said] : sources) text += fmt::format("  paper: {}\n", source);
  return text;
}

std::string compare_json(const Comparison& comparison, std::span<const CompareRow> rows) {
  std::string text = "[";
  for (const CompareRow& row : rows) {
    Json json{{"model", name_of(row.at.model)},
              {"workers", row.at.workers},
              {"loss", row.at.loss},
              {"straggling", row.at.straggling},
              {"backend", name_of(row.backend)},
              {"baseline", name_of(comparison.baseline)},
              {"refused", row.refusal.empty() ? Json(nullptr) : Json(row.refusal)},
              {"iteration_ms", or_null(row.iteration_ms)},
              {"speedup", or_null(row.speedup)},
              {"paper", or_null(row.paper)},
              {"least_comm_ms", or_null(row.least_comm_ms)},
              {"sent_mb", or_null(row.sent_mb)},
              {"received_mb", or_null(row.received_mb)},
              {"degraded_fraction", or_null(row.degraded_fraction)},
              {"retransmissions", or_null(row.retransmissions)},
              {"skipped_fraction", or_null(row.skipped_fraction)},
              {"missed_fraction", or_null(row.missed_fraction)},
              {"bottleneck", row.bottleneck},
              {"aggregators", aggregators_json(row.aggregators)},
              {"train", row.train},
              {"seed", row.seed}};
    for (size_t i = 0; i < std::size(kResources); i++) {
      json[kResources[i].key] = or_null(i < row.resources.size() ? row.resources[i] : std::nullopt);
    }
    text += (&row == rows.data() ? "\n" : ",\n") + json.dump();
  }
  return text + (rows.empty() ? "]\n" : "\n]\n");
}

std::string compare_csv(std::span<const CompareRow> rows) {
  const auto field = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) ? fmt::format("{}", *value) : std::string();
  };
  std::string text =
      "model,workers,loss,straggling,backend,refused,iteration_ms,speedup,paper,least_comm_ms,"
      "sent_mb,received_mb,degraded_fraction,skipped_fraction,missed_fraction,retransmissions,"
      "bottleneck,train,seed";
  for (const Resource& resource : kResources) text += fmt::format(",{}", resource.key);
  text += '\n';
  for (const CompareRow& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                        csv_field(name_of(row.at.model)), row.at.workers, row.at.loss,
                        row.at.straggling, csv_field(name_of(row.backend)), csv_field(row.refusal),
                        field(row.iteration_ms), field(row.speedup), field(row.paper),
                        field(row.least_comm_ms), field(row.sent_mb), field(row.received_mb),
                        field(row.degraded_fraction), field(row.skipped_fraction),
                        field(row.missed_fraction), field(row.retransmissions),
                        csv_field(row.bottleneck), row.train, row.seed);
    for (size_t i = 0; i < std::size(kResources); i++) {
      text += fmt::format(",{}", i < row.resources.size() ? field(row.resources[i]) : "");
    }
    text += '\n';
  }
  return text;
}

std::vector<LinePlot> compare_plots(std::span<const CompareRow> rows) {
  std::vector<LinePlot> plots;
  if (rows.empty()) return plots;
  const Axis& axis = longest_axis(rows);
  std::map<std::string, std::vector<PlotPoint>> paper;  // By title.
  for (const CompareRow& row : rows) {
    if (!row.iteration_ms) continue;
    const std::string title = rest_of(row.at, axis);
    auto plot = std::find_if(plots.begin(), plots.end(),
                             [&](const LinePlot& known) { return known.title == title; });
    if (plot == plots.end()) {
      plots.push_back({.title = title,
                       .x_label = axis.label,
                       .y_label = "mean iteration (ms)",
                       .series = {},
                       .height_px = 360,
                       .y_from_zero = true});
      plot = plots.end() - 1;
    }
    auto series =
        std::find_if(plot->series.begin(), plot->series.end(),
                     [&](const PlotSeries& known) { return known.name == name_of(row.backend); });
    if (series == plot->series.end()) {
      plot->series.push_back({.name = name_of(row.backend), .points = {}});
      series = plot->series.end() - 1;
    }
    const double x = axis.value(row.at) * axis.factor;
    series->points.push_back({x, *row.iteration_ms});
    if (row.paper && row.speedup)
      paper[title].push_back({x, *row.iteration_ms * *row.speedup / *row.paper});
  }
  for (LinePlot& plot : plots) {
    if (!paper.contains(plot.title)) continue;
    plot.series.push_back(
        {.name = "paper's speed-up", .points = paper[plot.title], .marks_only = true});
  }
  return plots;
}

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
#include "lab/compare/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "base/text_table.h"
#include "lab/backends/backend.h"
#include "lab/report/figure_row.h"
#include "lab/sweep/model_digest.h"
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

/// The results of a cell's seeds.
using Runs = std::vector<const RunResult*>;

/// Returns the mean of each resource over the runs. A resource that some run lacks has none.
std::vector<std::optional<double>> mean_resources(const Runs& runs) {
  std::vector<std::optional<double>> means = resources_of(runs.front()->aggregators);
  for (const RunResult* run : std::span(runs).subspan(1)) {
    const std::vector<std::optional<double>> values = resources_of(run->aggregators);
    for (size_t i = 0; i < means.size(); i++) {
      means[i] = means[i] && values[i] ? std::optional(*means[i] + *values[i]) : std::nullopt;
    }
  }
  for (std::optional<double>& mean : means) {
    if (mean) *mean /= static_cast<double>(runs.size());
  }
  return means;
}

std::vector<double> iterations_ms(const Runs& runs) {
  std::vector<double> all;
  for (const RunResult* run : runs) all.push_back(as_ms(run->mean_iteration));
  return all;
}

template <class Value>
Sample sample_over(const Runs& runs, Value&& value) {
  std::vector<double> all;
  for (const RunResult* run : runs) all.push_back(value(*run));
  return sample_of(all);
}

/// Sets the mean of a share of the blocks, and its statistics if there are several seeds.
void set_share(const Runs& runs, double (RunResult::*share)() const, std::optional<double>& mean,
               std::optional<Sample>& sample) {
  const Sample all = sample_over(runs, [share](const RunResult& run) { return (run.*share)(); });
  mean = all.mean;
  if (all.count > 1) sample = all;
}

/// Returns the runs of a cell's seeds, or the reason of the first that failed.
Result<Runs> runs_of(const CompareCell& cell, const RunnerOutcome& ran) {
  if (!cell.refusal.empty()) return failure(cell.refusal);
  Runs runs;
  std::string reason;
  for (size_t i = *cell.point; i < *cell.point + cell.seeds; i++) {
    if (ran.points.at(i)) {
      runs.push_back(&ran.points[i]->result);
    } else if (reason.empty()) {
      reason = ran.failures.at(i);
    }
  }
  if (runs.size() == cell.seeds) return runs;
  if (cell.seeds == 1) return failure(reason);
  return failure(
      fmt::format("{} of {} seeds failed: {}", cell.seeds - runs.size(), cell.seeds, reason));
}

CompareRow make_row(const CompareCase& at, const CompareCell& cell, const Result<Runs>& runs) {
  CompareRow row{.at = at, .backend = cell.backend};
  if (!runs) {
    row.refusal = runs.error().text;
    return row;
  }
  const double iterations = cell.scenario.iterations;
  const Sample sample = sample_of(iterations_ms(*runs));
  row.iteration_ms = sample.mean;
  if (sample.count > 1) row.iteration_sample = sample;
  row.least_comm_ms = least_comm_ms(cell.scenario, backend_kind(cell.backend));
  const auto mean = [&runs](auto&& value) { return sample_over(*runs, value).mean; };
  row.sent_mb = mean([&](const RunResult& run) {
    return static_cast<double>(run.workers.at(0).wire_bytes_sent) / 1e6 / iterations;
  });
  row.received_mb = mean([&](const RunResult& run) {
    return static_cast<double>(run.workers.at(0).wire_bytes_received) / 1e6 / iterations;
  });
  set_share(*runs, &RunResult::degraded_fraction, row.degraded_fraction, row.degraded_sample);
  set_share(*runs, &RunResult::skipped_fraction, row.skipped_fraction, row.skipped_sample);
  set_share(*runs, &RunResult::missed_fraction, row.missed_fraction, row.missed_sample);
  row.retransmissions = mean(
      [](const RunResult& run) { return sum_over_workers(run, &WorkerResult::retransmissions); });
  row.aggregators = runs->front()->aggregators;
  row.resources = mean_resources(*runs);
  row.bottleneck = runs->front()->bottleneck;
  row.seed = cell.scenario.seed;
  row.seeds = cell.seeds;
  row.by_chance = involves_chance(cell.scenario);
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

/// Returns the value with the standard error of its mean: "86 ± 1.2".
std::string shown(const std::optional<double>& value, const std::optional<Sample>& sample,
                  double factor = 1) {
  if (!sample || sample->standard_error == 0) return shown(value, factor);
  return fmt::format("{} ± {}", shown(value, factor),
                     short_number(sample->standard_error * factor));
}

Json or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

std::optional<double> of_sample(const std::optional<Sample>& sample, double Sample::*value) {
  return sample ? std::optional((*sample).*value) : std::nullopt;
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
               shown(row.iteration_ms, row.iteration_sample),
               shown(row.speedup, row.speedup_sample), shown(row.paper), shown(row.least_comm_ms),
               shown(row.sent_mb), shown(row.received_mb),
               shown(row.degraded_fraction, row.degraded_sample, 100),
               shown(row.skipped_fraction, row.skipped_sample, 100),
               shown(row.missed_fraction, row.missed_sample, 100), shown(row.retransmissions)});
    after += fmt::format("  {}: {}\n", name_of(row.backend), row.bottleneck);
  }
  return fmt::format("{}\n{}\n{}{}", case_text(rows.front().at), table.text(), resource_table(rows),
                     after);
}

/// Returns a line that says how sure the times are; empty if no seed decides anything.
std::string seeds_text(std::span<const CompareRow> rows) {
  uint32_t seeds = 0;
  for (const CompareRow& row : rows) {
    if (row.by_chance) seeds = std::max(seeds, row.seeds);
  }
  if (seeds == 0) return {};
  if (seeds == 1) {
    return "  One seed decides who straggles and what is lost; --seeds 20 shows how sure times "
           "are.\n";
  }
  return fmt::format(
      "  ±: standard error of the mean over {} seeds; other values are means over them, and\n"
      "  bottlenecks those of the first seed.\n",
      seeds);
}

/// Returns a line about the trains of the rows; empty if all have single packets.
std::string trains_text(std::span<const CompareRow> rows) {
  uint32_t least = UINT32_MAX;
  uint32_t most = 1;
  for (const CompareRow& row : rows) {
    if (!row.refusal.empty()) continue;
    least = std::min(least, row.train);
    most = std::max(most, row.train);
  }
  if (most == 1) return {};
  return fmt::format("  Trains of {} packets; --set train=1 for single packets.\n",
                     least == most ? std::to_string(most) : fmt::format("{} to {}", least, most));
}

}  // namespace

std::vector<CompareRow> compare_rows(const Comparison& comparison, const RunnerOutcome& ran) {
  std::vector<CompareRow> rows;
  std::vector<Result<Runs>> cells;
  std::map<size_t, std::vector<double>> baseline_ms;  // By case.
  for (const CompareCell& cell : comparison.cells) {
    cells.push_back(runs_of(cell, ran));
    rows.push_back(make_row(comparison.cases[cell.case_index], cell, cells.back()));
    rows.back().settings = comparison.settings;
    if (cell.backend == comparison.baseline && cells.back()) {
      baseline_ms[cell.case_index] = iterations_ms(*cells.back());
    }
  }
  for (size_t i = 0; i < rows.size(); i++) {
    const auto baseline = baseline_ms.find(comparison.cells[i].case_index);
    if (baseline == baseline_ms.end() || !cells[i]) continue;
    const Sample speedup = sample_of_ratio(baseline->second, iterations_ms(*cells[i]));
    rows[i].speedup = speedup.mean;
    if (speedup.count > 1) rows[i].speedup_sample = speedup;
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
  text += seeds_text(rows) + trains_text(rows);
  std::map<std::string, bool> sources;
  for (const CompareRow& row : rows) {
    if (row.paper) sources[row.paper_source] = true;
  }
  for (const auto& [source, said] : sources) text += fmt::format("  paper: {}\n", source);
  if (!sources.empty() && !comparison.settings.empty()) {
    text += fmt::format(
        "  Set over the comparison's own: {}. The paper's values are those of its own set-up.\n",
        comparison.settings);
  }
  return text;
}

std::string compare_json(const Comparison& comparison, std::span<const CompareRow> rows) {
  std::string text = "[";
  for (const CompareRow& row : rows) {
    Json json{
        {"model", name_of(row.at.model)},
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
        {"seed", row.seed},
        {"seeds", row.seeds},
        {"spread", or_null(of_sample(row.iteration_sample, &Sample::deviation))},
        {"standard_error", or_null(of_sample(row.iteration_sample, &Sample::standard_error))},
        {"low", or_null(of_sample(row.iteration_sample, &Sample::low))},
        {"high", or_null(of_sample(row.iteration_sample, &Sample::high))},
        {"speedup_standard_error", or_null(of_sample(row.speedup_sample, &Sample::standard_error))},
        {"degraded_standard_error",
         or_null(of_sample(row.degraded_sample, &Sample::standard_error))},
        {"skipped_standard_error", or_null(of_sample(row.skipped_sample, &Sample::standard_error))},
        {"missed_standard_error", or_null(of_sample(row.missed_sample, &Sample::standard_error))},
        {"settings", row.settings.empty() ? Json(nullptr) : Json(row.settings)},
        {"model_digest", model_digest()}};
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
      "bottleneck,train,seed,seeds,standard_error,speedup_standard_error,"
      "degraded_standard_error,skipped_standard_error,missed_standard_error,settings";
  for (const Resource& resource : kResources) text += fmt::format(",{}", resource.key);
  text += '\n';
  for (const CompareRow& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                        csv_field(name_of(row.at.model)), row.at.workers, row.at.loss,
                        row.at.straggling, csv_field(name_of(row.backend)), csv_field(row.refusal),
                        field(row.iteration_ms), field(row.speedup), field(row.paper),
                        field(row.least_comm_ms), field(row.sent_mb), field(row.received_mb),
                        field(row.degraded_fraction), field(row.skipped_fraction),
                        field(row.missed_fraction), field(row.retransmissions),
                        csv_field(row.bottleneck), row.train, row.seed, row.seeds);
    for (const auto* sample : {&row.iteration_sample, &row.speedup_sample, &row.degraded_sample,
                               &row.skipped_sample, &row.missed_sample}) {
      text += ',' + field(of_sample(*sample, &Sample::standard_error));
    }
    text += ',' + csv_field(row.settings);
    for (size_t i = 0; i < std::size(kResources); i++) {
      text += fmt::format(",{}", i < row.resources.size() ? field(row.resources[i]) : "");
    }
    text += '\n';
  }
  return text;
}

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/demo_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

namespace tributary::demo {
namespace {

using Json = nlohmann::ordered_json;

/// Iterations over which the plotted loss is averaged, because each batch is a small sample.
constexpr size_t kSmoothedIterations = 8;

/// Returns the number of iterations that every worker has recorded.
size_t common_iterations(const RunResult& run) {
  size_t count = run.records.empty() ? 0 : run.records.front().size();
  for (const auto& records : run.records) count = std::min(count, records.size());
  return count;
}

/// Returns the time at the end of each iteration and its loss, both averaged over the workers.
std::vector<lab::PlotPoint> loss_over_time(const RunResult& run) {
  std::vector<lab::PlotPoint> points(common_iterations(run), lab::PlotPoint{0.0, 0.0});
  const auto workers = static_cast<double>(run.records.size());
  for (const auto& records : run.records) {
    for (size_t i = 0; i < points.size(); i++) {
      points[i].x += records[i].seconds / workers;
      points[i].y += records[i].loss / workers;
    }
  }
  return points;
}

/// Replaces each y by the mean of the last kSmoothedIterations values.
std::vector<lab::PlotPoint> smoothed(const std::vector<lab::PlotPoint>& points) {
  std::vector<lab::PlotPoint> result = points;
  double sum = 0.0;
  for (size_t i = 0; i < points.size(); i++) {
    sum += points[i].y;
    if (i >= kSmoothedIterations) sum -= points[i - kSmoothedIterations].y;
    result[i].y = sum / static_cast<double>(std::min(i + 1, kSmoothedIterations));
  }
  return result;
}

SumCheck sums_of_all(std::span<const RunResult> runs) {
  SumCheck sums;
  for (const RunResult& run : runs) sums += figures_of(run).sums;
  return sums;
}

bool identical_in_all(std::span<const RunResult> runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [](const RunResult& run) { return figures_of(run).parameters_identical; });
}

/// Returns the mean time that an iteration loses to the straggler, compared with the clean run.
double seconds_lost(const RunFigures& run, const RunFigures& clean) {
  return run.iteration_seconds_mean - clean.iteration_seconds_mean;
}

Json config_json(const DemoConfig& config) {
  return {{"workers", config.workers},
          {"iterations", config.iterations},
          {"batch", config.batch},
          {"gradients", config.gradients},
          {"window", config.window},
          {"seed", config.seed},
          {"loss", config.loss},
          {"slow_probability", config.slow_probability},
          {"slow_factor", config.slow_factor},
          {"parameters", lab::LanguageModelShape{}.parameter_count()},
          {"cores", std::thread::hardware_concurrency()}};
}

Json workers_json(const RunResult& run) {
  Json workers = Json::array();
  for (const WorkerReport& report : run.reports) {
    workers.push_back({{"rank", report.rank},
                       {"parameter_checksum", fmt::format("{:016x}", report.parameter_checksum)},
                       {"validation_loss", report.validation_loss},
                       {"late_iterations", report.late_iterations},
                       {"sums_checked", report.sums.checked},
                       {"sums_wrong", report.sums.wrong},
                       {"sums_unchecked", report.sums.unchecked},
                       {"packets_sent", report.counters.packets_sent},
                       {"packets_received", report.counters.packets_received},
                       {"retransmitted", report.counters.retransmitted},
                       {"probes", report.counters.probes},
                       {"degraded_blocks", report.counters.degraded_blocks},
                       {"duplicate_results", report.counters.duplicate_results},
                       {"invalid_packets", report.counters.invalid_packets}});
  }
  return workers;
}

Json run_json(const RunResult& run, const RunFigures& clean) {
  const RunFigures figures = figures_of(run);
  Json json{{"title", run.plan.title},
            {"loss", run.plan.loss},
            {"straggler", run.plan.has_straggler()},
            {"slow_typical_ms", run.plan.slow_typical_ms},
            {"mitigation_ms", run.plan.mitigation_ms},
            {"iteration_seconds_mean", figures.iteration_seconds_mean},
            {"seconds_lost_per_iteration", seconds_lost(figures, clean)},
            {"degraded_blocks", figures.degraded_blocks},
            {"retransmissions", figures.retransmissions},
            {"final_loss", figures.final_loss},
            {"parameters_identical", figures.parameters_identical},
            {"sums_checked", figures.sums.checked},
            {"sums_wrong", figures.sums.wrong},
            {"sums_unchecked", figures.sums.unchecked},
            {"workers", workers_json(run)}};
  Json points = Json::array();
  for (const lab::PlotPoint& point : loss_over_time(run)) {
    points.push_back({{"seconds", point.x}, {"loss", point.y}});
  }
  json["loss_over_time"] = std::move(points);
  const Json aggregator = Json::parse(run.aggregator_json, nullptr, /*allow_exceptions=*/false);
  if (!aggregator.is_discarded()) json["aggregator"] = aggregator;
  return json;
}

/// Returns the text of one run's cell in a row of the table.
using Cell = std::function<std::string(const RunResult&)>;

std::string format_row(const std::string& name, std::span<const RunResult> runs, const Cell& cell) {
  constexpr size_t kNameWidth = 40;
  constexpr size_t kCellWidth = 14;
  std::string row = fmt::format("  {:<{}}", name, kNameWidth);
  for (const RunResult& run : runs) {
    const std::string text = cell(run);
    row += fmt::format("{:>{}}", text, std::max(kCellWidth, run.plan.title.size() + 2));
  }
  return row + "\n";
}

}  // namespace

RunFigures figures_of(const RunResult& run) {
  RunFigures figures;
  const auto workers = static_cast<double>(run.reports.size());
  const size_t iterations = common_iterations(run);
  for (const auto& records : run.records) {
    if (iterations == 0) break;
    figures.iteration_seconds_mean +=
        records[iterations - 1].seconds / static_cast<double>(iterations) / workers;
  }
  figures.parameters_identical = !run.reports.empty();
  for (const WorkerReport& report : run.reports) {
    // Every worker learns of the same degraded blocks, so the largest count covers them all.
    figures.degraded_blocks = std::max(figures.degraded_blocks, report.counters.degraded_blocks);
    figures.retransmissions += report.counters.retransmitted;
    figures.final_loss += report.validation_loss / workers;
    figures.sums += report.sums;
    if (report.parameter_checksum != run.reports.front().parameter_checksum) {
      figures.parameters_identical = false;
    }
  }
  return figures;
}

bool all_is_well(std::span<const RunResult> runs) {
  const SumCheck sums = sums_of_all(runs);
  return sums.wrong == 0 && sums.checked > 0 && identical_in_all(runs);
}

std::string format_table(std::span<const RunResult> runs) {
  if (runs.empty()) return {};
  const RunFigures clean = figures_of(runs.front());
  std::string table = format_row("", runs, [](const RunResult& run) { return run.plan.title; });
  table += format_row("iteration time", runs, [](const RunResult& run) {
    return fmt::format("{:.1f} ms", 1e3 * figures_of(run).iteration_seconds_mean);
  });
  table += format_row("time lost to the straggler", runs, [&clean](const RunResult& run) {
    if (!run.plan.has_straggler()) return std::string("-");
    return fmt::format("{:.1f} ms", 1e3 * seconds_lost(figures_of(run), clean));
  });
  table += format_row("degraded blocks", runs, [](const RunResult& run) {
    return fmt::format("{}", figures_of(run).degraded_blocks);
  });
  table += format_row("retransmissions", runs, [](const RunResult& run) {
    return fmt::format("{}", figures_of(run).retransmissions);
  });
  table += format_row("final loss (nats per byte)", runs, [](const RunResult& run) {
    return fmt::format("{:.3f}", figures_of(run).final_loss);
  });
  table += format_row("parameters bit-identical on all workers", runs, [](const RunResult& run) {
    return std::string(figures_of(run).parameters_identical ? "yes" : "NO");
  });
  const SumCheck sums = sums_of_all(runs);
  table += fmt::format("  sums checked: {}, wrong: {}", sums.checked, sums.wrong);
  if (sums.unchecked != 0) table += fmt::format(" (too late to check: {})", sums.unchecked);
  return table + "\n";
}

std::string format_json(const DemoConfig& config, std::span<const RunResult> runs) {
  const SumCheck sums = sums_of_all(runs);
  Json json{{"sums_checked", sums.checked},
            {"sums_wrong", sums.wrong},
            {"sums_unchecked", sums.unchecked},
            {"parameters_identical", identical_in_all(runs)},
            {"config", config_json(config)}};
  json["runs"] = Json::object();
  for (const RunResult& run : runs) {
    json["runs"][run.plan.key] = run_json(run, figures_of(runs.front()));
  }
  return json.dump(2) + "\n";
}

lab::LinePlot loss_plot(std::span<const RunResult> runs) {
  lab::LinePlot plot{.title = "Training through one aggregator: loss over time",
                     .x_label = "seconds since training began",
                     .y_label = "loss (nats per byte)",
                     .series = {}};
  for (const RunResult& run : runs) {
    plot.series.push_back({run.plan.title, smoothed(loss_over_time(run))});
  }
  return plot;
}

}  // namespace tributary::demo

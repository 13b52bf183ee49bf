// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/shared_output.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/text_table.h"
#include "lab/report/figure_row.h"
#include "lab/sweep/run_text.h"

namespace tributary::lab {
namespace {

uint64_t retransmissions(const RunResult& run) {
  uint64_t count = 0;
  for (const WorkerResult& worker : run.workers) count += worker.retransmissions;
  return count;
}

std::string jobs_text(const SharedResult& result) {
  TextTable table({0, 1});
  table.add({"job", "back end", "workers", "from_ms", "iteration_ms", "alone_ms", "slowdown",
             "degraded_%", "skipped_%", "missed_%", "resent"});
  for (const JobResult& job : result.jobs) {
    table.add({job.name, name_of(job.backend), fmt::format("{}", job.run.workers.size()),
               short_number(as_ms(job.began_at)), short_number(as_ms(job.run.mean_iteration)),
               job.alone ? short_number(as_ms(*job.alone)) : "–",
               job.slowdown() ? short_number(*job.slowdown()) : "–",
               short_number(100 * job.run.degraded_fraction()),
               short_number(100 * job.run.skipped_fraction()),
               short_number(100 * job.run.missed_fraction()),
               fmt::format("{}", retransmissions(job.run))});
  }
  return table.text();
}

Json job_json(const JobResult& job) {
  const Json run = run_json(job.run);
  Json json{{"name", job.name},
            {"backend", name_of(job.backend)},
            {"hosts", job.hosts},
            {"began_at_ns", as_ns(job.began_at)},
            {"retransmissions", retransmissions(job.run)}};
  json["alone_mean_iteration_ns"] = job.alone ? Json(as_ns(*job.alone)) : Json(nullptr);
  json["slowdown"] = job.slowdown() ? Json(*job.slowdown()) : Json(nullptr);
  // The rest is the network's, which the jobs share.
  for (const char* key :
       {"mean_iteration_ns", "total_ns", "typical_iteration_ns", "blocks", "degraded_blocks",
        "degraded_fraction", "skipped_blocks", "skipped_fraction", "missed_fraction", "wrong_sums",
        "checked_sums", "block_latency", "iterations_ns", "workers"}) {
    json[key] = run.at(key);
  }
  return json;
}

}  // namespace

std::string shared_text(const SharedResult& result) {
  std::string text = jobs_text(result);
  TextTable totals({0, 2});
  totals.add({"total", short_number(as_ms(result.total)), "ms"});
  totals.add({"packets delivered", fmt::format("{}", result.packets), "simulated"});
  totals.add({"digest", fmt::format("{:016x}", result.digest), ""});
  text += "\n" + totals.text() + "\n" + links_text(result.links);
  text += aggregators_text(result.aggregators);
  return text + "\nbottleneck: " + result.bottleneck + "\n";
}

Json shared_json(const SharedResult& result) {
  Json jobs = Json::array();
  for (const JobResult& job : result.jobs) jobs.push_back(job_json(job));
  return {{"jobs", std::move(jobs)},
          {"total_ns", as_ns(result.total)},
          {"bottleneck", result.bottleneck},
          {"links", links_json(result.links)},
          {"aggregators", aggregators_json(result.aggregators)},
          {"timeline", result.timeline},
          {"timeline_later", result.timeline_later},
          {"warnings", result.warnings},
          {"packets", result.packets},
          {"events", result.events},
          {"digest", fmt::format("{:016x}", result.digest)}};
}

LinePlot iterations_plot(std::span<const JobResult> jobs) {
  LinePlot plot{.title = "Iterations over time",
                .x_label = "end of the iteration, ms",
                .y_label = "time of the iteration, ms",
                .y_from_zero = true};
  for (const JobResult& job : jobs) {
    const std::string backend = name_of(job.backend);
    PlotSeries series{.name = fmt::format("{}: {}", job.name, backend), .points = {}};
    Duration at = job.began_at;
    for (const Duration iteration : job.run.iterations) {
      at = at + iteration;
      series.points.push_back({.x = as_ms(at), .y = as_ms(iteration)});
    }
    if (job.alone && !series.points.empty()) {
      const double alone = as_ms(*job.alone);
      plot.series.push_back({.name = job.name + " alone",
                             .points = {{.x = as_ms(job.began_at), .y = alone},
                                        {.x = series.points.back().x, .y = alone}},
                             .reference = true});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace tributary::lab

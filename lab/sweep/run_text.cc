// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/run_text.h"

#include <fmt/format.h>

#include "base/text_table.h"
#include "lab/report/figure_row.h"

namespace tributary::lab {
namespace {

std::string ms(Duration duration) { return short_number(as_ms(duration)); }
std::string us(Duration duration) { return short_number(as_us(duration)); }

std::string headline(const RunResult& result) {
  TextTable table({0, 2});
  table.add({"mean iteration", ms(result.mean_iteration), "ms"});
  table.add({"total", ms(result.total), "ms"});
  if (result.typical_iteration > Duration()) {
    table.add({"iteration without stragglers", ms(result.typical_iteration), "ms"});
  }
  table.add({"results taken", fmt::format("{}", result.blocks), "blocks"});
  table.add({"of these degraded", short_number(100 * result.degraded_fraction()), "%"});
  table.add({"skipped by a worker", short_number(100 * result.skipped_fraction()), "%"});
  table.add({"missed by workers", short_number(100 * result.missed_fraction()), "%"});
  table.add({"contribution to result, mean", us(result.block_latency.mean), "us"});
  table.add({"contribution to result, P99", us(result.block_latency.p99), "us"});
  const host::Staleness staleness = result.staleness();
  if (staleness.pushes_sum != 0) {
    table.add({"staleness, mean", short_number(result.staleness_mean()), "pushes of others"});
    table.add({"staleness, most", fmt::format("{}", staleness.pushes_max), "pushes of others"});
  }
  if (result.checked_sums != 0) {
    table.add({"sums checked", fmt::format("{}", result.checked_sums), "elements"});
    table.add({"wrong sums", fmt::format("{}", result.wrong_sums), "elements"});
  }
  table.add({"packets delivered", fmt::format("{}", result.packets), "simulated"});
  table.add({"digest", fmt::format("{:016x}", result.digest), ""});
  return table.text();
}

std::string workers_text(const RunResult& result) {
  TextTable table;
  table.add({"worker", "iterations", "skipped", "computed_ms", "waited_ms", "slept_ms",
             "contributions", "lost", "resent", "overflows"});
  for (size_t i = 0; i < result.workers.size(); i++) {
    const WorkerResult& worker = result.workers[i];
    table.add(
        {fmt::format("{}{}", i, worker.dropped_out ? " (out)" : ""),
         fmt::format("{}", worker.iterations), fmt::format("{}", worker.iterations_skipped),
         ms(worker.computed), ms(worker.waited), ms(worker.slept),
         fmt::format("{}", worker.contributions), fmt::format("{}", worker.contributions_lost),
         fmt::format("{}", worker.retransmissions), fmt::format("{}", worker.receive_overflows)});
  }
  return table.text();
}

}  // namespace

std::string links_text(const std::vector<LinkResult>& links) {
  TextTable table({0});
  table.add({"link", "packets", "bytes", "lost", "marked", "queue_peak_bytes", "used_%"});
  for (const LinkResult& link : links) {
    table.add({link.name, fmt::format("{}", link.packets), fmt::format("{}", link.bytes),
               fmt::format("{}", link.lost), fmt::format("{}", link.marked),
               fmt::format("{}", link.queue_bytes_peak), short_number(100 * link.utilisation)});
  }
  return table.text();
}

std::string aggregator_text(const AggregatorResult& aggregator) {
  TextTable table({0, 2});
  table.add({"contributions", fmt::format("{}", aggregator.packets), "packets"});
  table.add({"dropped", fmt::format("{}", aggregator.dropped), "packets"});
  table.add({"time inside, mean", us(aggregator.latency.mean), "us"});
  table.add({"time inside, P99", us(aggregator.latency.p99), "us"});
  for (const AggregatorResult::Part& part : aggregator.parts) {
    table.add({part.name, short_number(part.value), part.unit});
  }
  return fmt::format("{}: {}\n{}", aggregator.name,
                     aggregator.bottleneck.empty() ? "no bottleneck known" : aggregator.bottleneck,
                     table.text());
}

std::string run_text(const RunResult& result) {
  std::string text = headline(result);
  text += "\n" + workers_text(result) + "\n" + links_text(result.links);
  for (const AggregatorResult& aggregator : result.aggregators) {
    text += "\n" + aggregator_text(aggregator);
  }
  if (!result.bottleneck.empty()) text += "\nbottleneck: " + result.bottleneck + "\n";
  return text;
}

}  // namespace tributary::lab

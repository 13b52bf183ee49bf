// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/text_table.h"
#include "lab/report/figure_row.h"

namespace tributary::lab {
namespace {

std::string ms(Duration duration) { return short_number(as_ms(duration)); }
/// Returns one of the times of a summary, or "-" if it is one of nothing.
std::string us(const DurationSummary& summary, Duration duration) {
  return summary.count == 0 ? "-" : short_number(as_us(duration));
}

/// Longer tables show the rows that a reader looks for first. Files have all.
constexpr size_t kRowsMax = 32;
constexpr size_t kAggregatorsMax = 8;

/// Returns the places of the `max` items with the largest keys, in the order of the items.
template <class Item, class Key>
std::vector<size_t> foremost(const std::vector<Item>& items, size_t max, Key key) {
  std::vector<size_t> places(items.size());
  std::iota(places.begin(), places.end(), size_t{0});
  if (places.size() <= max) return places;
  std::partial_sort(places.begin(), places.begin() + static_cast<ptrdiff_t>(max), places.end(),
                    [&](size_t a, size_t b) {
                      const auto first = key(items[a]);
                      const auto second = key(items[b]);
                      return first > second || (!(second > first) && a < b);
                    });
  places.resize(max);
  std::sort(places.begin(), places.end());
  return places;
}

/// Returns a line with the number of rows that a table leaves out, or "" if it has all.
std::string left_out(size_t all, size_t shown, const char* what) {
  if (all == shown) return {};
  return fmt::format("  … and {} more {}; --json FILE has all\n", all - shown, what);
}

std::string headline(const RunResult& result) {
  TextTable table({0, 2});
  table.add({"mean iteration", ms(result.mean_iteration), "ms"});
  table.add({"total", ms(result.total), "ms"});
  if (result.dropouts() != 0) {
    table.add({"dropped out", fmt::format("{} of {}", result.dropouts(), result.workers.size()),
               "workers; times and shares are those of the others"});
  }
  if (result.typical_iteration > Duration()) {
    table.add({"ideal iteration, the unit of delays", ms(result.typical_iteration), "ms"});
  }
  table.add({"results taken", fmt::format("{}", result.blocks), "blocks"});
  table.add({"of these degraded", short_number(100 * result.degraded_fraction()), "%"});
  table.add({"skipped by a worker", short_number(100 * result.skipped_fraction()), "%"});
  table.add({"missed by workers", short_number(100 * result.missed_fraction()), "%"});
  table.add(
      {"contribution to result, mean", us(result.block_latency, result.block_latency.mean), "us"});
  table.add(
      {"contribution to result, P99", us(result.block_latency, result.block_latency.p99), "us"});
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

/// Returns a count, or "3 to 8" if some results do not name their workers.
std::string lost_contributions(const WorkerResult& worker) {
  const uint64_t lost = worker.contributions_lost;
  if (worker.contributions_unclear == 0) return fmt::format("{}", lost);
  return fmt::format("{} to {}", lost, lost + worker.contributions_unclear);
}

std::string workers_text(const RunResult& result) {
  TextTable table;
  table.add({"worker", "iterations", "skipped", "computed_ms", "waited_ms", "slept_ms",
             "contributions", "lost", "resent", "probes", "overflows"});
  const std::vector<size_t> shown =
      foremost(result.workers, kRowsMax, [](const WorkerResult& worker) {
        const uint64_t troubles = worker.contributions_lost + worker.contributions_unclear +
                                  worker.iterations_skipped + worker.retransmissions +
                                  worker.receive_overflows;
        return std::tuple(worker.dropped_out, worker.slept, troubles, worker.computed);
      });
  for (const size_t i : shown) {
    const WorkerResult& worker = result.workers[i];
    table.add({fmt::format("{}{}", i, worker.dropped_out ? " (out)" : ""),
               fmt::format("{}", worker.iterations), fmt::format("{}", worker.iterations_skipped),
               ms(worker.computed), ms(worker.waited), ms(worker.slept),
               fmt::format("{}", worker.contributions), lost_contributions(worker),
               fmt::format("{}", worker.retransmissions), fmt::format("{}", worker.probes),
               fmt::format("{}", worker.receive_overflows)});
  }
  return table.text() +
         left_out(result.workers.size(), shown.size(), "workers, which slept and lost no more");
}

std::string aggregator_text(const AggregatorResult& aggregator) {
  TextTable table({0, 2});
  table.add({"contributions", fmt::format("{}", aggregator.packets), "packets"});
  table.add({"dropped", fmt::format("{}", aggregator.dropped), "packets"});
  table.add({"time inside, mean", us(aggregator.latency, aggregator.latency.mean), "us"});
  table.add({"time inside, P99", us(aggregator.latency, aggregator.latency.p99), "us"});
  for (const AggregatorResult::Part& part : aggregator.parts) {
    table.add({part.name, short_number(part.value), part.unit});
  }
  return fmt::format("{}: {}\n{}", aggregator.name,
                     aggregator.bottleneck.empty() ? "no bottleneck known" : aggregator.bottleneck,
                     table.text());
}

}  // namespace

std::string links_text(const std::vector<LinkResult>& links) {
  TextTable table({0});
  table.add({"link", "packets", "bytes", "lost", "dropped", "duplicated", "marked",
             "queue_peak_bytes", "used_%"});
  const std::vector<size_t> shown = foremost(links, kRowsMax, [](const LinkResult& link) {
    return std::tuple(link.lost, link.marked, link.utilisation);
  });
  for (const size_t i : shown) {
    const LinkResult& link = links[i];
    table.add({link.name, fmt::format("{}", link.packets), fmt::format("{}", link.bytes),
               fmt::format("{}", link.lost), fmt::format("{}", link.dropped),
               fmt::format("{}", link.duplicated), fmt::format("{}", link.marked),
               fmt::format("{}", link.queue_bytes_peak), short_number(100 * link.utilisation)});
  }
  return table.text() +
         left_out(links.size(), shown.size(), "links, which lost, marked and carried no more");
}

std::string aggregators_text(const std::vector<AggregatorResult>& aggregators) {
  const std::vector<size_t> shown =
      foremost(aggregators, kAggregatorsMax, [](const AggregatorResult& aggregator) {
        return std::tuple(aggregator.dropped, aggregator.latency.mean, aggregator.packets);
      });
  std::string text;
  for (const size_t i : shown) text += "\n" + aggregator_text(aggregators[i]);
  const std::string more =
      left_out(aggregators.size(), shown.size(), "aggregators, which dropped and delayed no more");
  return more.empty() ? text : text + "\n" + more;
}

std::string run_text(const RunResult& result) {
  std::string text = headline(result);
  text += "\n" + workers_text(result) + "\n" + links_text(result.links);
  text += aggregators_text(result.aggregators);
  if (!result.bottleneck.empty()) text += "\nbottleneck: " + result.bottleneck + "\n";
  return text;
}

}  // namespace tributary::lab

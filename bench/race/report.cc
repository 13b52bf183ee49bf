// SPDX-License-Identifier: Apache-2.0
#include "bench/race/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text_table.h"
#include "bench/race/network.h"
#include "bench/race/placement.h"
#include "lab/report/svg_plot.h"

namespace tributary::race {
namespace {

/// A longer one-way time means that two cores share no cache. Source: measured on virtual machines
/// whose cores are moved: 25 ns near, 160 ns far.
constexpr double kFarNs = 80;
constexpr double kMegabyte = 1e6;

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

std::string case_text(const RaceCase& race) {
  return fmt::format("{}, {} workers, {}{} MB{}{}", net_name(race), race.workers,
                     race.servers > 0 ? fmt::format("{} spare, ", race.servers) : "",
                     static_cast<double>(race.bytes) / kMegabyte,
                     race.wire == 32 ? "" : fmt::format(" at {} bits", race.wire),
                     race.loss > 0 ? fmt::format(", loss {} %", race.loss * 100) : "");
}

std::string ratio_text(double value) {
  return value > 0 ? fmt::format("{:.2f}", value) : std::string("–");
}

/// Returns the number of machines besides the workers'.
uint32_t servers_of(const RaceRow& row) {
  const System* system = find_system(row.system);
  const NetKind* kind = find_net_kind(row.race.net);
  return system == nullptr || kind == nullptr ? 0 : server_machines(*system, *kind, row.race);
}

double to_optimum(const RaceRow& row) {
  const double optimum_s = optimum_of(row);
  return optimum_s > 0 ? row.median_s / optimum_s : 0;
}

/// Returns the share of the cores' time that all processes took; near 1, the cores limit the
/// system.
double cores_busy(const RaceRow& row, const Machine& machine) {
  const double tensors_gb = static_cast<double>(row.race.bytes) / 1e9 * row.race.workers;
  const double available_s = row.median_s * machine.cores;
  return available_s > 0 ? row.total_cpu_s_per_gb * tensors_gb / available_s : 0;
}

std::string rows_text(const RaceResult& result) {
  TextTable table({0, 1});
  table.add({"net", "system", "workers", "servers", "MB", "bits", "loss %", "ms", "over optimum",
             "spread %", "GB/s", "CPU s/GB worker", "colocated", "total", "cores busy %", "link MB",
             "wrong", "ranks differ"});
  for (const RaceRow& row : result.rows) {
    const double megabytes = static_cast<double>(row.race.bytes) / kMegabyte;
    table.add({net_name(row.race), row.system, std::to_string(row.race.workers),
               std::to_string(servers_of(row)), fmt::format("{}", megabytes),
               std::to_string(row.race.wire), fmt::format("{}", row.race.loss * 100),
               milliseconds(row.median_s), ratio_text(to_optimum(row)),
               fmt::format("{:.0f}", row.spread * 100),
               fmt::format("{:.3f}", megabytes / 1e3 / row.median_s),
               fmt::format("{:.2f}", row.worker_cpu_s_per_gb),
               ratio_text(row.colocated_cpu_s_per_gb),
               fmt::format("{:.2f}", row.total_cpu_s_per_gb),
               fmt::format("{:.0f}", cores_busy(row, result.machine) * 100),
               fmt::format("{:.2f}", row.link_bytes / kMegabyte), std::to_string(row.wrong),
               std::to_string(row.laps_differ)});
  }
  return table.text();
}

std::string comparison_text(const RaceResult& result) {
  TextTable table({0, 1});
  table.add({"Tributary's time over", "fastest TCP peer", "ratio", "rounds", "worker CPU", "ps",
             "the link's time", "optimum"});
  for (const Comparison& one : compare(result)) {
    table.add({case_text(one.race), one.fastest_peer.empty() ? "–" : one.fastest_peer,
               ratio_text(one.to_peer.median),
               one.fastest_peer.empty()
                   ? "–"
                   : fmt::format("{:.2f}..{:.2f}", one.to_peer.min, one.to_peer.max),
               ratio_text(one.cpu_to_peer), ratio_text(one.to_server), ratio_text(one.to_link),
               ratio_text(one.to_optimum)});
  }
  return table.text();
}

using CaseKey = std::tuple<std::string, uint64_t, uint32_t, double>;  // Network, bytes, bits, loss.

lab::LinePlot plot_of(const CaseKey& key, const std::vector<const RaceRow*>& rows) {
  const auto& [net, bytes, wire, loss] = key;
  lab::LinePlot plot{
      .title = fmt::format("All-reduce of {} MB{}, {}{}", static_cast<double>(bytes) / kMegabyte,
                           wire == 32 ? "" : fmt::format(" at {} bits", wire), net,
                           loss > 0 ? fmt::format(", loss {} %", loss * 100) : ""),
      .x_label = "workers",
      .y_label = "time (ms)",
      .y_from_zero = true};
  std::map<std::string, lab::PlotSeries> by_system;
  for (const RaceRow* row : rows) {
    const std::string name = row->race.servers > 0
                                 ? fmt::format("{}, {} spare", row->system, row->race.servers)
                                 : row->system;
    lab::PlotSeries& series = by_system[name];
    series.name = name;
    series.points.push_back({.x = static_cast<double>(row->race.workers),
                             .y = row->median_s * 1e3,
                             .error = row->median_s * row->spread * 0.5e3});
  }
  for (auto& [name, series] : by_system) {
    series.marks_only = series.points.size() == 1;
    plot.series.push_back(std::move(series));
  }
  return plot;
}

nlohmann::ordered_json machine_json(const RaceResult& result) {
  return {{"processor", result.machine.processor},
          {"cores", result.machine.cores},
          {"kernel", result.machine.kernel},
          {"load_before", result.machine.load},
          {"load_after", result.load_after},
          {"handoff_ns_before", result.handoff_before_ns},
          {"handoff_ns_after", result.handoff_after_ns}};
}

/// Returns a value above 0, or null: there is none.
nlohmann::ordered_json value_json(double value) {
  if (value > 0) return value;
  return nullptr;
}

nlohmann::ordered_json comparison_json(const Comparison& one) {
  return {{"net", net_name(one.race)},
          {"workers", one.race.workers},
          {"servers", one.race.servers},
          {"bytes", one.race.bytes},
          {"wire", one.race.wire},
          {"loss", one.race.loss},
          {"fastest_peer", one.fastest_peer},
          {"ratio", value_json(one.to_peer.median)},
          {"ratio_min", value_json(one.to_peer.min)},
          {"ratio_max", value_json(one.to_peer.max)},
          {"worker_cpu_ratio", value_json(one.cpu_to_peer)},
          {"ratio_to_ps", value_json(one.to_server)},
          {"ratio_to_link", value_json(one.to_link)},
          {"ratio_to_optimum", value_json(one.to_optimum)}};
}

}  // namespace

std::string net_name(const RaceCase& race) {
  return race.straggler ? race.net + "+straggler" : race.net;
}

nlohmann::ordered_json as_json(const RaceResult& result) {
  nlohmann::ordered_json json{{"bench", "race"},
                              {"machine", machine_json(result)},
                              {"seconds", result.seconds},
                              {"interrupted", result.interrupted},
                              {"rows", nlohmann::ordered_json::array()},
                              {"comparisons", nlohmann::ordered_json::array()},
                              {"left_out", nlohmann::ordered_json::array()},
                              {"cannot_tell", limits_of(result)}};
  for (const RaceRow& row : result.rows) {
    const NetKind* kind = find_net_kind(row.race.net);
    nlohmann::ordered_json link_bytes = nullptr;
    if (kind == nullptr || !kind->shared_memory) link_bytes = row.link_bytes;
    json["rows"].push_back({{"system", row.system},
                            {"net", net_name(row.race)},
                            {"workers", row.race.workers},
                            {"servers", servers_of(row)},
                            {"bytes", row.race.bytes},
                            {"wire", row.race.wire},
                            {"loss", row.race.loss},
                            {"median_s", row.median_s},
                            {"optimum_s", value_json(optimum_of(row))},
                            {"ratio_to_optimum", value_json(to_optimum(row))},
                            {"spread", row.spread},
                            {"worker_cpu_s_per_GB", row.worker_cpu_s_per_gb},
                            {"colocated_cpu_s_per_GB", value_json(row.colocated_cpu_s_per_gb)},
                            {"total_cpu_s_per_GB", row.total_cpu_s_per_gb},
                            {"cores_busy", cores_busy(row, result.machine)},
                            {"link_bytes", link_bytes},
                            {"wrong", row.wrong},
                            {"laps_ranks_differ", row.laps_differ}});
  }
  for (const Comparison& one : compare(result)) {
    json["comparisons"].push_back(comparison_json(one));
  }
  for (const SkippedCase& skipped : result.left_out) {
    json["left_out"].push_back({{"system", skipped.system},
                                {"net", net_name(skipped.race)},
                                {"workers", skipped.race.workers},
                                {"servers", skipped.race.servers},
                                {"bytes", skipped.race.bytes},
                                {"wire", skipped.race.wire},
                                {"loss", skipped.race.loss},
                                {"why", skipped.why}});
  }
  return json;
}

double optimum_of(const RaceRow& row) {
  const NetKind* kind = find_net_kind(row.race.net);
  const System* system = find_system(row.system);
  if (kind == nullptr || !kind->all_shaped || system == nullptr) return 0;
  return system->kind == SystemKind::kParameterServer ? 0 : optimum_seconds(*kind, row.race);
}

std::vector<Comparison> compare(const RaceResult& result) {
  std::vector<Comparison> comparisons;
  for (const RaceRow& own : result.rows) {
    if (own.system != "tributary") continue;
    Comparison one{.race = own.race, .fastest_peer = {}, .to_peer = {}};
    const RaceRow* peer = nullptr;
    const NetKind* kind = find_net_kind(own.race.net);
    // Over shared memory, compare with TCP on the same machine.
    RaceCase rivals = own.race;
    rivals.servers = 0;
    if (kind != nullptr && kind->shared_memory) rivals.net = "lo";
    for (const RaceRow& row : result.rows) {
      if (row.race != rivals) continue;
      const System* system = find_system(row.system);
      const bool is_peer = system != nullptr && system->is_tcp_peer();
      if (is_peer && (peer == nullptr || row.median_s < peer->median_s)) peer = &row;
      if (row.system == "ps") one.to_server = own.median_s / row.median_s;
    }
    if (peer != nullptr) {
      one.fastest_peer = peer->system;
      one.to_peer = paired_ratio(own, *peer).value_or(PairedRatio{});
      one.cpu_to_peer = own.worker_cpu_s_per_gb / peer->worker_cpu_s_per_gb;
    }
    if (kind != nullptr && kind->mbit > 0) {
      one.to_link = own.median_s / link_seconds(own.race.wire_bytes(), kind->mbit, kind->mtu_bytes);
    }
    one.to_optimum = to_optimum(own);
    comparisons.push_back(std::move(one));
  }
  return comparisons;
}

std::vector<std::string> limits_of(const RaceResult& result) {
  std::vector<std::string> lines{
      fmt::format("Workers, servers and the network share {} cores: without shaped links, large "
                  "tensors show the cost of the software, not the capacity of links or switches.",
                  result.machine.cores),
      "No network card took part, so its offloads and limits are not in the figures.",
      "Packets that the kernel processes while another program runs count as that program's CPU "
      "time. The totals include them, but a single worker's share may be off."};
  const auto any = [&result](auto holds) {
    return std::any_of(result.rows.begin(), result.rows.end(), holds);
  };
  if (any([](const RaceRow& row) { return row.race.net == "lo"; })) {
    lines.emplace_back(
        "The loopback is one link for all workers: link MB is the traffic of all of them.");
  }
  if (any([](const RaceRow& row) {
        return row.race.loss > 0 && !find_net_kind(row.race.net)->may_lose();
      })) {
    lines.emplace_back(
        "TCP systems under loss cannot be compared where segments of 64 KiB cross whole: only "
        "Tributary's own packets are lost there. The networks named pkt drop packets of all "
        "systems.");
  }
  const double load = std::max(result.machine.load, result.load_after);
  lines.push_back(
      fmt::format("The load average was {:.1f} before and {:.1f} after; the second includes the "
                  "race itself. Other programs slow all systems down, but not evenly.",
                  result.machine.load, load));
  const bool was_far = result.handoff_before_ns > kFarNs;
  const bool is_far = result.handoff_after_ns > kFarNs;
  if (was_far || is_far) {
    lines.push_back(fmt::format(
        "A cache line took {:.0f} ns between two cores before and {:.0f} ns after: they did not "
        "{}share a cache, so times between programs are longer than on one processor.",
        result.handoff_before_ns, result.handoff_after_ns, was_far && is_far ? "" : "always "));
  }
  return lines;
}

std::string as_table(const RaceResult& result) {
  std::string text = fmt::format(
      "{}, {} cores, Linux {}; cache line between cores {:.0f} ns before, {:.0f} ns after; load "
      "{:.1f} before, {:.1f} after; {:.0f} s\n\n",
      result.machine.processor.empty() ? "unknown processor" : result.machine.processor,
      result.machine.cores, result.machine.kernel, result.handoff_before_ns,
      result.handoff_after_ns, result.machine.load, result.load_after, result.seconds);
  text += rows_text(result) + "\n" + comparison_text(result);
  if (!result.left_out.empty()) text += "\nLeft out:\n";
  for (const SkippedCase& skipped : result.left_out) {
    text += fmt::format("  {} ({}): {}\n", skipped.system.empty() ? "all" : skipped.system,
                        case_text(skipped.race), skipped.why);
  }
  text += "\nLimits of these figures:\n";
  for (const std::string& line : limits_of(result)) text += fmt::format("  {}\n", line);
  return text;
}

std::string as_svg(const RaceResult& result) {
  std::map<CaseKey, std::vector<const RaceRow*>> groups;
  for (const RaceRow& row : result.rows) {
    groups[{net_name(row.race), row.race.bytes, row.race.wire, row.race.loss}].push_back(&row);
  }
  std::vector<lab::LinePlot> plots;
  for (const auto& [key, rows] : groups) plots.push_back(plot_of(key, rows));
  return lab::render_svg(plots);
}

}  // namespace tributary::race

// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "host/auto_terms.h"
#include "wire/trio_ml.h"

namespace tributary::cli {
namespace {

using plan::Bottleneck;

const char* roles_of(const plan::Machine& machine, uint32_t weight) {
  if (!machine.worker) return weight > 0 ? "aggregator" : "nothing";
  return weight > 0 ? "worker, aggregator" : "worker";
}

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

/// Returns the part of the all-reduce for which something is busy.
std::string busy(double seconds, const PlanReport& report) {
  const double whole = report.assignment.predicted_s;
  return whole > 0 ? percent(seconds / whole) : "-";
}

std::string table_of(const PlanReport& report) {
  const plan::Assignment& plan = report.assignment;
  size_t width = std::string_view("machine").size();
  for (const plan::Machine& machine : report.machines.machines) {
    width = std::max(width, machine.name.size());
  }
  std::string text =
      fmt::format("{:<{}}  {:<18}  {:>7}  {:>6}  {:>7}  {:>9}  {:>8}  {}\n", "machine", width,
                  "runs", "share", "weight", "Gbit/s", "link busy", "CPU busy", "limit");
  for (size_t i = 0; i < plan.weights.size(); i++) {
    const plan::Machine& machine = report.machines.machines[i];
    const bool limited = std::isfinite(machine.sum_bytes_per_s);
    text += fmt::format(
        "{:<{}}  {:<18}  {:>7}  {:>6}  {:>7.4g}  {:>9}  {:>8}  {}\n", machine.name, width,
        roles_of(machine, plan.weights[i]), percent(plan.shares[i]), plan.weights[i],
        machine.link_bytes_per_s / kBytesPerGbit, busy(plan.times[i].link_s, report),
        limited ? busy(plan.times[i].sum_s, report) : "-",
        plan.bottlenecks[i] == Bottleneck::kNone ? "" : to_string(plan.bottlenecks[i]));
    while (text.ends_with(" \n")) text.erase(text.size() - 2, 1);
  }
  return text;
}

/// Writes one line of times, with its ratio to the plan's.
std::string time_line(const char* what, double seconds, const PlanReport& report) {
  const std::string line = fmt::format("{:<16}  {:>8.4f} s", what, seconds);
  const double whole = report.assignment.predicted_s;
  if (whole == 0) return line + "\n";
  return fmt::format("{}  {:.2f} times this plan\n", line, seconds / whole);
}

std::string times_of(const PlanReport& report) {
  const plan::Assignment& plan = report.assignment;
  std::string text = fmt::format("{:<16}  {:>8.4f} s\n", "this plan", plan.predicted_s);
  text += time_line("optimum", plan.optimum_s, report);
  if (plan.equation_s) text += time_line("equation 6", *plan.equation_s, report);
  text += time_line("best ring", plan.ring_s, report);
  text += time_line("one aggregator", plan.one_aggregator_s, report);
  return text;
}

nlohmann::ordered_json json_of(const PlanReport& report, size_t i) {
  const plan::Machine& machine = report.machines.machines[i];
  const plan::Assignment& plan = report.assignment;
  const bool limited = std::isfinite(machine.sum_bytes_per_s);
  nlohmann::ordered_json row{{"name", machine.name},
                             {"endpoint", report.machines.endpoints[i]},
                             {"worker", machine.worker},
                             {"aggregator", plan.weights[i] > 0},
                             {"link_gbit", machine.link_bytes_per_s / kBytesPerGbit},
                             {"sum_gbit", nullptr},
                             {"share", plan.shares[i]},
                             {"weight", plan.weights[i]},
                             {"link_s", plan.times[i].link_s},
                             {"cpu_s", plan.times[i].sum_s},
                             {"bottleneck", to_string(plan.bottlenecks[i])}};
  if (limited) row["sum_gbit"] = machine.sum_bytes_per_s / kBytesPerGbit;
  return row;
}

/// Tells whether ranks use IPv4, as the first listed address says. A name may stand for either; it
/// counts as IPv4.
bool is_ipv4(const PlanMachines& machines) { return !machines.endpoints.front().starts_with('['); }

/// Refuses a list that is longer than a worker accepts.
Result<void> check_aggregator_count(const std::vector<uint32_t>& weights) {
  const auto aggregators =
      std::ranges::count_if(weights, [](uint32_t weight) { return weight > 0; });
  if (aggregators <= wire::kAggregatorsMax) return {};
  return failure(fmt::format(
      "--workers, --servers: {} machines run an aggregator; allowed: up to {}; to fix: "
      "give fewer machines, or let only --servers aggregate: tributary plan --colocated off, "
      "whose list tributary launch takes as --server",
      aggregators, wire::kAggregatorsMax));
}

}  // namespace

std::string list_of_servers(const std::vector<std::string>& endpoints,
                            const std::vector<uint32_t>& weights) {
  const bool weighted =
      std::any_of(weights.begin(), weights.end(), [](uint32_t weight) { return weight > 1; });
  std::string list;
  for (size_t i = 0; i < weights.size(); i++) {
    if (weights[i] == 0) continue;
    list += fmt::format("{}{}", list.empty() ? "" : ",", endpoints[i]);
    if (weighted) list += fmt::format("={}", weights[i]);
  }
  return list;
}

Result<PlanReport> make_plan_report(const PlanRequest& request) {
  auto machines = read_plan_machines(request.flags);
  if (!machines) return tl::unexpected(machines.error());
  PlanReport report;
  report.request = request;
  report.machines = std::move(*machines);
  report.workers = plan::worker_count(report.machines.machines);
  const bool ipv4 = is_ipv4(report.machines);
  report.gradients = host::auto_gradients(request.mtu, ipv4);
  report.tensor = {.bytes = static_cast<double>(request.bytes),
                   .wire_ratio = host::auto_wire_ratio(request.mtu, ipv4)};
  auto assignment = plan::assign(report.machines.machines, report.tensor);
  if (!assignment) return tl::unexpected(assignment.error());
  report.assignment = std::move(*assignment);
  if (const auto checked = check_aggregator_count(report.assignment.weights); !checked) {
    return tl::unexpected(checked.error());
  }
  report.servers = list_of_servers(report.machines.endpoints, report.assignment.weights);
  report.url =
      fmt::format("tributary://{}/job/{}?world={}", report.servers, request.job_id, report.workers);
  return report;
}

std::string as_text(const PlanReport& report) {
  return fmt::format(
      "{}\n"
      "{} bytes of gradients, {} in a packet: {:.3f} bytes on the wire for each byte\n"
      "{}\n"
      "worker processes: --server {}\n"
      "communicators:    {}\n",
      table_of(report), report.request.bytes, report.gradients, report.tensor.wire_ratio,
      times_of(report), report.servers, report.url);
}

nlohmann::ordered_json as_json(const PlanReport& report) {
  const plan::Assignment& plan = report.assignment;
  nlohmann::ordered_json json{{"bytes", report.request.bytes},
                              {"mtu", report.request.mtu},
                              {"gradients", report.gradients},
                              {"wire_ratio", report.tensor.wire_ratio},
                              {"workers", report.workers},
                              {"servers", report.machines.machines.size() - report.workers},
                              {"colocated", report.request.flags.colocated},
                              {"predicted_s", plan.predicted_s},
                              {"optimum_s", plan.optimum_s},
                              {"equation_s", nullptr},
                              {"ring_s", plan.ring_s},
                              {"one_aggregator_s", plan.one_aggregator_s},
                              {"server_list", report.servers},
                              {"url", report.url}};
  if (plan.equation_s) json["equation_s"] = *plan.equation_s;
  json["machines"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < plan.weights.size(); i++) json["machines"].push_back(json_of(report, i));
  return json;
}

}  // namespace tributary::cli

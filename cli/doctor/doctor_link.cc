// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/doctor_link.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/plan/plan_machines.h"
#include "host/auto_terms.h"
#include "plan/assignment.h"

namespace tributary::cli {
namespace {

constexpr double kTensorBytes = 100e6;
/// A single aggregator that is this much slower than the best ring costs speed. Assumed.
constexpr double kSlower = 1.05;

std::vector<plan::Machine> machines_of(double own_gbit, double worker_gbit,
                                       const LinkQuestion& question) {
  std::vector<plan::Machine> machines{{.name = "this machine",
                                       .link_bytes_per_s = own_gbit * kBytesPerGbit,
                                       .sum_bytes_per_s = question.sum_gbit * kBytesPerGbit,
                                       .worker = false,
                                       .aggregator = true}};
  for (uint32_t i = 0; i < question.workers; i++) {
    machines.push_back({.name = fmt::format("worker{}", i),
                        .link_bytes_per_s = worker_gbit * kBytesPerGbit,
                        .worker = true,
                        .aggregator = false});
  }
  return machines;
}

/// Returns @GBIT[/SUM] of this machine, as tributary plan reads it.
std::string rates_text(double own_gbit, const LinkQuestion& question) {
  if (std::isinf(question.sum_gbit)) return fmt::format("@{:g}", own_gbit);
  return fmt::format("@{:g}/{:.3g}", own_gbit, question.sum_gbit);
}

Finding examine_link(const InterfaceFacts& interface, const LinkQuestion& question) {
  Finding finding{
      .what = fmt::format("link of {} for {} workers", interface.name, question.workers),
      .found = "",
      .verdict = Verdict::kOk,
      .remedy = ""};
  double own_gbit = question.server_gbit;
  if (own_gbit == 0) {
    if (!interface.mbit) {
      finding.found =
          "unknown rate (virtual, or no cable); give it with --server-gbit for a comparison and a "
          "prediction";
      return finding;
    }
    own_gbit = static_cast<double>(*interface.mbit) / 1000;
  }
  const double worker_gbit = question.worker_gbit == 0 ? own_gbit : question.worker_gbit;
  const auto machines = machines_of(own_gbit, worker_gbit, question);
  const auto plan = plan::assign(
      machines, {.bytes = kTensorBytes,
                 .wire_ratio = host::auto_wire_ratio(interface.mtu_bytes, /*ipv4=*/true)});
  if (!plan) {
    finding.found = plan.error().text;
    return finding;
  }
  finding.found = fmt::format(
      "{:.4g} Gbit/s, where the workers send {:.4g}; with one aggregator here, 100 MB take {:.3g} "
      "s",
      own_gbit, worker_gbit * question.workers, plan->predicted_s);
  if (plan->ring_s == 0) return finding;  // A single worker needs no ring.
  finding.found +=
      fmt::format(", {:.2f} times the best ring's time", plan->predicted_s / plan->ring_s);
  if (plan->predicted_s <= kSlower * plan->ring_s) return finding;
  finding.verdict = Verdict::kCostsSpeed;
  finding.remedy = fmt::format(
      "run aggregators on the worker machines, too (docs/many-aggregators.md): tributary plan "
      "--workers {} --servers 1{} --gbit {:g}",
      question.workers, rates_text(own_gbit, question), worker_gbit);
  return finding;
}

}  // namespace

std::vector<Finding> examine_links(std::span<const InterfaceFacts> interfaces,
                                   const LinkQuestion& question) {
  std::vector<Finding> findings;
  for (const InterfaceFacts& interface : interfaces) {
    if (!interface.up || interface.loopback) continue;
    findings.push_back(examine_link(interface, question));
  }
  if (findings.empty()) {
    findings.push_back({.what = fmt::format("link for {} workers", question.workers),
                        .found = "no interface is up, except loopback",
                        .verdict = Verdict::kWrong,
                        .remedy = "ip link set dev NAME up"});
  }
  return findings;
}

}  // namespace tributary::cli

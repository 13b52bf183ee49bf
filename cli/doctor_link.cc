// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_link.h"

#include <fmt/format.h>

#include "cli/plan_machines.h"
#include "host/auto_terms.h"
#include "plan/assignment.h"

namespace tributary::cli {
namespace {

constexpr double kTensorBytes = 100e6;
/// A single aggregator that is this much slower than the best ring costs speed. Assumed.
constexpr double kSlower = 1.05;

plan::Machine machine(std::string name, double gbit, bool worker) {
  return {.name = std::move(name),
          .link_bytes_per_s = gbit * kBytesPerGbit,
          .worker = worker,
          .aggregator = !worker};
}

Finding examine_link(const InterfaceFacts& interface, uint32_t workers, double worker_gbit) {
  Finding finding{.what = fmt::format("link of {} for {} workers", interface.name, workers),
                  .found = "",
                  .verdict = Verdict::kOk,
                  .remedy = ""};
  if (!interface.mbit) {
    finding.found = "unknown rate (virtual, or no cable)";
    return finding;
  }
  const double own_gbit = static_cast<double>(*interface.mbit) / 1000;
  if (worker_gbit == 0) worker_gbit = own_gbit;
  std::vector<plan::Machine> machines{machine("this machine", own_gbit, /*worker=*/false)};
  for (uint32_t i = 0; i < workers; i++) {
    machines.push_back(machine(fmt::format("worker{}", i), worker_gbit, /*worker=*/true));
  }
  const auto plan = plan::assign(
      machines, {.bytes = kTensorBytes,
                 .wire_ratio = host::auto_wire_ratio(interface.mtu_bytes, /*ipv4=*/true)});
  if (!plan) {
    finding.found = plan.error().text;
    return finding;
  }
  finding.found = fmt::format(
      "{:.4g} Gbit/s, where the workers send {:.4g}; with one aggregator here, 100 MB take {:.3g} "
      "s, "
      "{:.2f} times the best ring's time",
      own_gbit, worker_gbit * workers, plan->predicted_s, plan->predicted_s / plan->ring_s);
  if (plan->predicted_s <= kSlower * plan->ring_s) return finding;
  finding.verdict = Verdict::kCostsSpeed;
  finding.remedy = fmt::format(
      "run aggregators on the worker machines, too (docs/many-aggregators.md): tributary plan "
      "--workers {} --servers 1@{:g} --gbit {:g}",
      workers, own_gbit, worker_gbit);
  return finding;
}

}  // namespace

std::vector<Finding> examine_links(std::span<const InterfaceFacts> interfaces, uint32_t workers,
                                   double worker_gbit) {
  std::vector<Finding> findings;
  for (const InterfaceFacts& interface : interfaces) {
    if (!interface.up || interface.loopback) continue;
    findings.push_back(examine_link(interface, workers, worker_gbit));
  }
  if (findings.empty()) {
    findings.push_back({.what = fmt::format("link for {} workers", workers),
                        .found = "no interface is up, except loopback",
                        .verdict = Verdict::kWrong,
                        .remedy = "ip link set dev NAME up"});
  }
  return findings;
}

}  // namespace tributary::cli

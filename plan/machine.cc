// SPDX-License-Identifier: Apache-2.0
#include "plan/machine.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <string_view>

namespace tributary::plan {
namespace {

Result<void> check_machine(const Machine& machine) {
  if (!machine.worker && !machine.aggregator) {
    return failure(fmt::format(
        "machine '{}' has no role; allowed: worker, aggregator or both; leave it out otherwise",
        machine.name));
  }
  if (!(machine.link_bytes_per_s > 0) || !std::isfinite(machine.link_bytes_per_s)) {
    return failure(
        fmt::format("machine '{}' has a link of {} bytes/s; allowed: a finite rate above 0",
                    machine.name, machine.link_bytes_per_s));
  }
  if (!(machine.sum_bytes_per_s > 0)) {
    return failure(fmt::format("machine '{}' adds {} bytes/s; allowed: a rate above 0, or no limit",
                               machine.name, machine.sum_bytes_per_s));
  }
  return {};
}

}  // namespace

Result<void> check_machines(std::span<const Machine> machines) {
  bool has_worker = false;
  bool has_aggregator = false;
  std::set<std::string_view> names;
  for (const Machine& machine : machines) {
    if (const auto checked = check_machine(machine); !checked) return checked;
    if (!names.insert(machine.name).second) {
      return failure(fmt::format(
          "machine '{}' is given twice; allowed: each machine once, because it has one link",
          machine.name));
    }
    has_worker = has_worker || machine.worker;
    has_aggregator = has_aggregator || machine.aggregator;
  }
  if (!has_worker) return failure("no machine runs a worker; allowed: one worker or more");
  if (!has_aggregator) {
    return failure(
        "no machine runs an aggregator; allowed: one or more; add a spare machine, or let the "
        "workers' machines run aggregators");
  }
  return {};
}

}  // namespace tributary::plan

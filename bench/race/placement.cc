// SPDX-License-Identifier: Apache-2.0
#include "bench/race/placement.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "plan/assignment.h"

namespace tributary::race {
namespace {

double bytes_per_s(uint32_t mbit) { return mbit * 1e6 / 8; }

/// Plans a case: the spare machines first, then the workers'.
plan::Assignment plan_of(const NetKind& kind, const RaceCase& race) {
  TRIB_ASSERT(kind.all_shaped);
  std::vector<plan::Machine> machines;
  for (uint32_t i = 0; i < race.servers; i++) {
    machines.push_back({.name = fmt::format("s{}", i),
                        .link_bytes_per_s = bytes_per_s(kind.spare_mbit(i)),
                        .worker = false});
  }
  for (uint32_t rank = 0; rank < race.workers; rank++) {
    machines.push_back(
        {.name = fmt::format("w{}", rank), .link_bytes_per_s = bytes_per_s(kind.mbit)});
  }
  const auto assigned = plan::assign(machines, {.bytes = static_cast<double>(race.wire_bytes()),
                                                .wire_ratio = wire_ratio(kind.mtu_bytes)});
  TRIB_ASSERT(assigned.has_value());  // The machines of a race have links, names and roles.
  return *assigned;
}

}  // namespace

std::vector<Aggregator> place_aggregators(const NetKind& kind, const RaceCase& race) {
  if (!kind.all_shaped) return {{.colocated = false, .index = 0, .weight = 1}};
  const plan::Assignment plan = plan_of(kind, race);
  std::vector<Aggregator> aggregators;
  for (uint32_t i = 0; i < plan.weights.size(); i++) {
    if (plan.weights[i] == 0) continue;
    const bool colocated = i >= race.servers;
    aggregators.push_back({.colocated = colocated,
                           .index = colocated ? i - race.servers : i,
                           .weight = plan.weights[i]});
  }
  return aggregators;
}

double optimum_seconds(const NetKind& kind, const RaceCase& race) {
  return plan_of(kind, race).optimum_s;
}

std::vector<std::string> at_machine_of(const Aggregator& aggregator, const RaceNetwork& network) {
  return aggregator.colocated ? network.at_worker(aggregator.index)
                              : network.at_spare(aggregator.index);
}

std::string address_of(const Aggregator& aggregator, const RaceNetwork& network) {
  return aggregator.colocated ? network.worker_address(aggregator.index)
                              : network.spare_address(aggregator.index);
}

std::string aggregator_list(const std::vector<Aggregator>& aggregators, const RaceNetwork& network,
                            uint16_t port) {
  std::string list;
  for (const Aggregator& aggregator : aggregators) {
    if (!list.empty()) list += ',';
    list += fmt::format("{}:{}", address_of(aggregator, network), port);
    if (aggregators.size() > 1) list += fmt::format("={}", aggregator.weight);
  }
  return list;
}

}  // namespace tributary::race

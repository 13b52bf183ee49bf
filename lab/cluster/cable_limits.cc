// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/cable_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "lab/cluster/plan_network.h"
#include "lab/train_limits.h"

namespace tributary::lab {
namespace {

/// Counts the streams of packets that meet in the queue of a cable. A worker sends one, and so does
/// an aggregator, whose results go to a group.
class CableUse {
 public:
  CableUse(const net::Topology& topology, const std::vector<std::string>& workers)
      : topology_(topology), workers_(workers.begin(), workers.end()) {
    for (const net::NodeSpec& node : topology.nodes) kinds_.emplace(node.name, node.kind);
    for (size_t i = 0; i < topology.cables.size(); i++) {
      cables_of_[topology.cables[i].a.node].push_back(i);
      cables_of_[topology.cables[i].b.node].push_back(i);
    }
    has_top_ = !nodes_of(topology, kTopKind).empty();
  }

  /// Returns the streams in one direction of a cable whose aggregators are switches.
  [[nodiscard]] uint32_t streams(size_t cable, const std::string& from,
                                 const std::string& to) const {
    if (!forwards(from) || workers_.contains(to)) return 1;
    const std::set<std::string_view> side = reach(cable, from);
    // With several paths, all workers may use this one.
    if (side.contains(to)) return static_cast<uint32_t>(workers_.size());
    uint32_t count = 0;
    for (const std::string_view node : side) {
      const std::string_view kind = kinds_.at(node);
      const bool adds = kind == kAggregatorKind;
      // The last aggregator is on this side, so the cable carries results.
      if (kind == kTopKind || (adds && !has_top_)) return 1;
      if (adds || workers_.contains(node)) count++;
    }
    return std::max(count, 1U);
  }

 private:
  [[nodiscard]] bool forwards(std::string_view node) const {
    return kinds_.at(node) == net::kSwitchKind;
  }
  /// Returns the nodes that packets from `from` can reach without the cable, and `from`.
  [[nodiscard]] std::set<std::string_view> reach(size_t without, std::string_view from) const {
    std::set<std::string_view> reached{from};
    std::vector<std::string_view> next{from};
    while (!next.empty()) {
      const std::string_view node = next.back();
      next.pop_back();
      if (!forwards(node)) continue;
      for (const size_t cable : cables_of_.at(node)) {
        if (cable == without) continue;
        const net::CableSpec& spec = topology_.cables[cable];
        const std::string_view other = spec.a.node == node ? spec.b.node : spec.a.node;
        if (reached.insert(other).second) next.push_back(other);
      }
    }
    return reached;
  }

  const net::Topology& topology_;
  const std::set<std::string_view> workers_;
  std::map<std::string_view, std::string_view> kinds_;
  std::map<std::string_view, std::vector<size_t>> cables_of_;
  bool has_top_ = false;
};

}  // namespace

Result<void> check_cable_limits(const net::Topology& topology, const Scenario& scenario,
                                const BackendKind& backend,
                                const std::vector<std::string>& workers) {
  const bool marks =
      scenario.host.congestion != host::CongestionControl::kNone && scenario.train > 1;
  const bool switch_adds = backend.placement == Placement::kSwitch;
  const CableUse use(topology, workers);
  for (size_t i = 0; i < topology.cables.size(); i++) {
    const net::CableSpec& cable = topology.cables[i];
    for (const bool forth : {true, false}) {
      const std::string& from = forth ? cable.a.node : cable.b.node;
      const std::string& to = forth ? cable.b.node : cable.a.node;
      SharedLink link{.prefix = "", .config = forth ? &cable.forth : &cable.back, .workers = 1};
      std::optional<Refusal> refusal = check_queue(scenario, backend, link);
      if (!refusal && marks) {
        link.workers = switch_adds ? use.streams(i, from, to) : scenario.workers;
        refusal = check_mark(scenario, backend, link);
      }
      if (!refusal) continue;
      return failure(
          fmt::format("{}: the cable from {} to {}: {}", cable.where, from, to, refusal->text));
    }
  }
  return {};
}

}  // namespace tributary::lab

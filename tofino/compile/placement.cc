// SPDX-License-Identifier: Apache-2.0
#include "tofino/compile/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "tofino/compile/check.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

Dependency dependency_between(const std::vector<Unit>& units, uint32_t before, uint32_t after) {
  const Unit& a = units[before];
  const Unit& b = units[after];
  Dependency found{before, after, DependencyKind::kIndependent, kNone};
  if (a.ingress != b.ingress || exclusive(a, b)) return found;
  const auto is = [&](DependencyKind kind, const FieldSet& one, const FieldSet& other) {
    const FieldId id = first_common(one, other);
    if (id == kNone) return false;
    found.kind = kind;
    found.field = id;
    return true;
  };
  if (is(DependencyKind::kMatch, a.writes, b.match_reads)) return found;
  if (is(DependencyKind::kAction, a.writes, b.action_reads)) return found;
  if (is(DependencyKind::kAction, a.writes, b.writes)) return found;
  if (is(DependencyKind::kAnti, a.match_reads, b.writes)) return found;
  if (is(DependencyKind::kAnti, a.action_reads, b.writes)) return found;
  for (const Branch& branch : b.path) {
    if (branch.node == before) found.kind = DependencyKind::kSuccessor;
  }
  return found;
}

uint32_t distance_of(DependencyKind kind) {
  return kind == DependencyKind::kMatch || kind == DependencyKind::kAction ? 1 : 0;
}

/// Returns a cluster number for each unit. Units that share a register or counter must share a
/// stage, so they get the same number.
std::vector<uint32_t> clusters_of(const Program& program, const std::vector<Unit>& units) {
  std::vector<uint32_t> cluster(units.size());
  std::vector<uint32_t> of_register(program.registers.size(), UINT32_MAX);
  std::vector<uint32_t> of_counter(program.counters.size(), UINT32_MAX);
  for (uint32_t i = 0; i < units.size(); i++) cluster[i] = i;
  const auto join = [&](uint32_t unit, uint32_t& owner) {
    if (owner == UINT32_MAX) {
      owner = cluster[unit];
      return;
    }
    const uint32_t from = cluster[unit];
    for (uint32_t& other : cluster) {
      if (other == from) other = cluster[owner];
    }
  };
  for (uint32_t i = 0; i < units.size(); i++) {
    if (units[i].table == kNone) continue;
    for (const ActionId id : actions_of(program.tables[units[i].table])) {
      const Action& action = program.actions[id];
      for (const RegisterCall& call : action.register_calls) join(i, of_register[call.reg]);
      for (const CounterCall& call : action.counts) join(i, of_counter[call.counter]);
    }
  }
  return cluster;
}

class Placer {
 public:
  explicit Placer(const Program& program)
      : program_(program),
        units_(units_of(program)),
        dependencies_(dependencies_of(units_)),
        cluster_(clusters_of(program, units_)),
        stage_of_(units_.size(), kUnplaced),
        chain_(units_.size()) {
    for (size_t i = dependencies_.size(); i-- > 0;) {
      const Dependency& d = dependencies_[i];
      chain_[d.before] = std::max(chain_[d.before], chain_[d.after] + distance_of(d.kind));
    }
  }

  /// Places all units. It continues beyond the last stage, so that the error can say how many
  /// stages the program needs.
  [[nodiscard]] Result<void> run() {
    const std::vector<uint32_t> order = by_chain();
    uint32_t left = static_cast<uint32_t>(units_.size());
    for (uint32_t stage = 0; left > 0; stage++) {
      stages_.emplace_back();
      bool progress = true;
      while (progress) {
        progress = false;
        for (const uint32_t lead : order) {
          if (stage_of_[lead] != kUnplaced || !may_lie_in(lead, stage)) continue;
          const std::vector<uint32_t> members = members_of(lead);
          if (auto refused = put(members, stage); !refused) {
            return tl::unexpected(refused.error());
          } else if (*refused) {
            left -= static_cast<uint32_t>(members.size());
            progress = true;
          }
        }
      }
      if (auto good = check_pins(stage); !good) return good;
      if (stages_.back().units.empty() && stage >= last_pin()) return refuse_deadlock();
    }
    if (stages_.size() > kStages) return refuse_stages();
    return {};
  }

  [[nodiscard]] Placement take(PhvUse phv) {
    Placement placement{.units = std::move(units_),
                        .stage_of = stage_of_,
                        .stages = {},
                        .phv = phv,
                        .parser_rows_ingress = parser_rows(program_, program_.ingress),
                        .parser_rows_egress = parser_rows(program_, program_.egress)};
    for (const Stage& stage : stages_) placement.stages.push_back(stage.use);
    placement.cycles_ingress = cycles(placement, true);
    placement.cycles_egress = cycles(placement, false);
    return placement;
  }

 private:
  static constexpr uint32_t kUnplaced = UINT32_MAX;
  struct Stage {
    std::vector<const Unit*> units = {};
    StageUse use = {};
  };

  [[nodiscard]] std::vector<uint32_t> by_chain() const {
    std::vector<uint32_t> order(units_.size());
    for (uint32_t i = 0; i < order.size(); i++) order[i] = i;
    std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
      return chain_[a] != chain_[b] ? chain_[a] > chain_[b] : a < b;
    });
    return order;
  }

  [[nodiscard]] std::vector<uint32_t> members_of(uint32_t lead) const {
    std::vector<uint32_t> members;
    for (uint32_t i = 0; i < units_.size(); i++) {
      if (cluster_[i] == cluster_[lead]) members.push_back(i);
    }
    return members;
  }

  [[nodiscard]] std::optional<uint32_t> pin_of(uint32_t unit) const {
    return units_[unit].table == kNone ? std::nullopt : program_.tables[units_[unit].table].stage;
  }

  /// Returns true if every unit before the unit's cluster is in an early enough stage.
  [[nodiscard]] bool may_lie_in(uint32_t lead, uint32_t stage) {
    for (const uint32_t unit : members_of(lead)) {
      if (pin_of(unit) && *pin_of(unit) != stage) return false;
    }
    for (const Dependency& d : dependencies_) {
      if (cluster_[d.after] != cluster_[lead]) continue;
      const uint32_t distance = distance_of(d.kind);
      const bool inside = cluster_[d.before] == cluster_[lead];
      if (inside && distance == 0) continue;
      if (inside || stage_of_[d.before] == kUnplaced || stage_of_[d.before] + distance > stage) {
        if (distance > 0 && !inside && stage_of_[d.before] != kUnplaced) {
          rejections_[d.after] =
              fmt::format("it depends ({}, field '{}') on {} in stage {}", name_of(d.kind),
                          program_.fields[d.field].name, name_of(program_, units_[d.before]),
                          stage_of_[d.before]);
        }
        return false;
      }
    }
    return true;
  }

  /// Places a cluster. @return true if it fits the stage; an error if it fits no stage.
  [[nodiscard]] Result<bool> put(const std::vector<uint32_t>& members, uint32_t stage) {
    std::vector<const Unit*> alone;
    for (const uint32_t unit : members) alone.push_back(&units_[unit]);
    const StageUse own = use_of_stage(program_, alone);
    if (const ResourceInfo* much = own.exceeded()) {
      return failure(fmt::format("program '{}': {} needs {} {}; a stage has {}", program_.name,
                                 name_of(program_, *alone.front()), amount(own, *much), much->name,
                                 much->limit));
    }
    std::vector<const Unit*> together = stages_[stage].units;
    together.insert(together.end(), alone.begin(), alone.end());
    const StageUse use = use_of_stage(program_, together);
    if (const ResourceInfo* much = use.exceeded()) {
      for (const uint32_t unit : members) {
        if (pin_of(unit)) {
          return failure(fmt::format("program '{}': stage {} needs {} {} with {}; a stage has {}",
                                     program_.name, stage, amount(use, *much), much->name,
                                     name_of(program_, units_[unit]), much->limit));
        }
        rejections_[unit] = fmt::format("stage {} would need {} {}; it has {}", stage,
                                        amount(use, *much), much->name, much->limit);
      }
      return false;
    }
    for (const uint32_t unit : members) stage_of_[unit] = stage;
    stages_[stage].units = std::move(together);
    stages_[stage].use = use;
    return true;
  }

  static uint32_t amount(const StageUse& use, const ResourceInfo& info) {
    for (uint32_t i = 0; i < kResourceCount; i++) {
      if (&info_of(static_cast<Resource>(i)) == &info) return use.of[i];
    }
    return 0;
  }

  /// Refuses units that are pinned to this stage and were not placed in it.
  [[nodiscard]] Result<void> check_pins(uint32_t stage) const {
    for (uint32_t i = 0; i < units_.size(); i++) {
      if (!pin_of(i) || *pin_of(i) != stage || stage_of_[i] != kUnplaced) continue;
      return failure(fmt::format("program '{}': {} is pinned to stage {}, but {}", program_.name,
                                 name_of(program_, units_[i]), stage, reason_for(i)));
    }
    return {};
  }

  [[nodiscard]] std::string reason_for(uint32_t unit) const {
    const auto found = rejections_.find(unit);
    return found == rejections_.end() ? "a unit that it depends on comes later" : found->second;
  }

  [[nodiscard]] Result<void> refuse_deadlock() const {
    for (uint32_t i = 0; i < units_.size(); i++) {
      if (stage_of_[i] != kUnplaced) continue;
      return failure(
          fmt::format("program '{}': {} cannot be placed: tables that share a register "
                      "depend on each other, and a register is in 1 stage",
                      program_.name, name_of(program_, units_[i])));
    }
    return {};
  }

  /// Returns the last stage to which a unit is pinned.
  [[nodiscard]] uint32_t last_pin() const {
    uint32_t last = 0;
    for (uint32_t i = 0; i < units_.size(); i++) last = std::max(last, pin_of(i).value_or(0));
    return last;
  }

  [[nodiscard]] Result<void> refuse_stages() const {
    for (uint32_t i = 0; i < units_.size(); i++) {
      if (stage_of_[i] != kStages) continue;
      return failure(
          fmt::format("program '{}' needs {} stages; a pipe has {}: {} would be in "
                      "stage {} (counted from 0), because {}",
                      program_.name, stages_.size(), kStages, name_of(program_, units_[i]), kStages,
                      reason_for(i)));
    }
    return failure(fmt::format("program '{}' needs {} stages; a pipe has {}", program_.name,
                               stages_.size(), kStages));
  }

  /// Returns one gress's cycles from the first stage to the last.
  [[nodiscard]] uint32_t cycles(const Placement& placement, bool ingress) const {
    std::vector<DependencyKind> kind(placement.stages.size(), DependencyKind::kIndependent);
    std::vector<uint32_t> extra(placement.stages.size());
    for (const Dependency& d : dependencies_) {
      if (placement.units[d.after].ingress != ingress) continue;
      if (stage_of_[d.after] != stage_of_[d.before] + 1) continue;
      kind[stage_of_[d.after]] = std::max(kind[stage_of_[d.after]], d.kind);
    }
    for (uint32_t i = 0; i < placement.units.size(); i++) {
      const Unit& unit = placement.units[i];
      if (unit.ingress != ingress) continue;
      const Unit* one[] = {&unit};
      const StageUse use = use_of_stage(program_, one);
      const uint32_t more = (use[Resource::kTcamBlocks] > 0 ? kTcamCycles : 0) +
                            (use[Resource::kStatefulAlus] > 0 ? kStatefulCycles : 0);
      extra[stage_of_[i]] = std::max(extra[stage_of_[i]], more);
    }
    uint32_t sum = kCornerTurnCycles;
    for (uint32_t stage = 0; stage < kStages; stage++) {
      const bool used = stage < kind.size();
      if (stage == 0 || (used && kind[stage] == DependencyKind::kMatch)) {
        sum += kMatchDependentCycles + (used ? extra[stage] : 0);
      } else if (used && kind[stage] == DependencyKind::kAction) {
        sum += kActionDependentCycles;
      } else {
        sum += kConcurrentCycles;
      }
    }
    return sum;
  }

  const Program& program_;
  std::vector<Unit> units_;
  const std::vector<Dependency> dependencies_;
  const std::vector<uint32_t> cluster_;
  std::vector<uint32_t> stage_of_;
  std::vector<uint32_t> chain_;  ///< Number of stages that must follow the unit's stage.
  std::vector<Stage> stages_;
  std::map<uint32_t, std::string> rejections_;  ///< Reason why a unit was not placed earlier.
};

}  // namespace

const char* name_of(DependencyKind kind) {
  switch (kind) {
    case DependencyKind::kIndependent:
      return "no";
    case DependencyKind::kSuccessor:
      return "successor";
    case DependencyKind::kAnti:
      return "anti";
    case DependencyKind::kAction:
      return "action";
    case DependencyKind::kMatch:
      return "match";
  }
  return "unknown";
}

std::vector<Dependency> dependencies_of(const std::vector<Unit>& units) {
  std::vector<Dependency> all;
  for (uint32_t after = 0; after < units.size(); after++) {
    for (uint32_t before = 0; before < after; before++) {
      const Dependency found = dependency_between(units, before, after);
      if (found.kind != DependencyKind::kIndependent) all.push_back(found);
    }
  }
  return all;
}

uint32_t Placement::total(Resource resource) const {
  uint32_t sum = 0;
  for (const StageUse& stage : stages) sum += stage[resource];
  return sum;
}

Result<Placement> place(const Program& program) {
  if (auto good = check_program(program); !good) return tl::unexpected(good.error());
  auto phv = allocate_phv(program, units_of(program));
  if (!phv) return tl::unexpected(phv.error());
  Placer placer(program);
  if (auto good = placer.run(); !good) return tl::unexpected(good.error());
  return placer.take(*phv);
}

}  // namespace tributary::tofino

// SPDX-License-Identifier: Apache-2.0
#include "tofino/compile/flow.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::tofino {

void insert(FieldSet& set, FieldId id) {
  if (id == kNone) return;
  const auto at = std::lower_bound(set.begin(), set.end(), id);
  if (at == set.end() || *at != id) set.insert(at, id);
}

FieldId first_common(const FieldSet& a, const FieldSet& b) {
  for (const FieldId id : a) {
    if (std::binary_search(b.begin(), b.end(), id)) return id;
  }
  return kNone;
}

FieldSet memory_reads_of(const Action& action) {
  FieldSet reads;
  for (const HashCall& hash : action.hashes) {
    for (const FieldId input : hash.inputs) insert(reads, input);
  }
  for (const RegisterCall& call : action.register_calls) {
    insert(reads, call.index);
    for (const FieldId input : call.inputs) insert(reads, input);
  }
  for (const CounterCall& call : action.counts) insert(reads, call.index);
  return reads;
}

ActionUse use_of(const Action& action) {
  ActionUse use{memory_reads_of(action), {}};
  for (const FieldId target : action.random_draws) insert(use.writes, target);
  for (const HashCall& hash : action.hashes) insert(use.writes, hash.target);
  for (const RegisterCall& call : action.register_calls) insert(use.writes, call.output);
  for (const Operation& operation : action.operations) {
    insert(use.writes, operation.target);
    if (operation.a.kind == OperandKind::kField) {
      insert(use.reads, static_cast<FieldId>(operation.a.value));
    }
    if (operation.op != AluOp::kSet && operation.b.kind == OperandKind::kField) {
      insert(use.reads, static_cast<FieldId>(operation.b.value));
    }
  }
  return use;
}

std::vector<ActionId> actions_of(const Table& table) {
  std::vector<ActionId> all = table.actions;
  if (table.default_action != kNone &&
      std::find(all.begin(), all.end(), table.default_action) == all.end()) {
    all.push_back(table.default_action);
  }
  return all;
}

namespace {

class Flattener {
 public:
  Flattener(const Program& program, std::vector<Unit>& units) : program_(program), units_(units) {}

  void add(const std::vector<Statement>& statements, bool ingress,
           const std::vector<Branch>& path) {
    for (const Statement& statement : statements) {
      const auto node = static_cast<uint32_t>(units_.size());
      units_.push_back(unit_of(statement, ingress, path));
      std::vector<Branch> below = path;
      below.push_back({node, true});
      add(statement.then, ingress, below);
      below.back().taken = false;
      add(statement.otherwise, ingress, below);
    }
  }

 private:
  [[nodiscard]] Unit unit_of(const Statement& statement, bool ingress,
                             const std::vector<Branch>& path) const {
    Unit unit{.ingress = ingress, .table = statement.table, .path = path};
    if (statement.table == kNone) {
      unit.terms = statement.terms;
      for (const Term& term : statement.terms) insert(unit.match_reads, term.field);
      return unit;
    }
    const Table& table = program_.tables[statement.table];
    for (const Key& key : table.keys) insert(unit.match_reads, key.field);
    for (const ActionId id : actions_of(table)) {
      const ActionUse use = use_of(program_.actions[id]);
      for (const FieldId read : use.reads) insert(unit.action_reads, read);
      for (const FieldId written : use.writes) insert(unit.writes, written);
    }
    return unit;
  }

  const Program& program_;
  std::vector<Unit>& units_;
};

}  // namespace

std::vector<Unit> units_of(const Program& program) {
  std::vector<Unit> units;
  Flattener flattener(program, units);
  flattener.add(program.ingress.control, true, {});
  flattener.add(program.egress.control, false, {});
  return units;
}

bool exclusive(const Unit& a, const Unit& b) {
  for (const Branch& one : a.path) {
    for (const Branch& other : b.path) {
      if (one.node == other.node && one.taken != other.taken) return true;
    }
  }
  return false;
}

std::string name_of(const Program& program, const Unit& unit) {
  if (unit.table != kNone) return fmt::format("table '{}'", program.tables[unit.table].name);
  if (unit.terms.empty()) return "condition without terms";
  return fmt::format("condition on '{}'", program.fields[unit.terms.front().field].name);
}

}  // namespace tributary::tofino

// SPDX-License-Identifier: Apache-2.0
#include "tofino/compile/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tofino/compile/flow.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

/// Returns true if the value fits in `bits`.
bool fits(uint32_t value, uint32_t bits) { return bits >= 32 || value >> bits == 0; }

Result<void> check_operation(const Program& program, const Action& action,
                             const Operation& operation) {
  for (const Operand& operand : {operation.a, operation.b}) {
    if (operand.kind == OperandKind::kParameter && operand.value >= action.parameter_bits.size()) {
      return failure(fmt::format("action '{}' uses parameter {}; it has {} parameters", action.name,
                                 operand.value, action.parameter_bits.size()));
    }
  }
  const Field& target = program.fields[operation.target];
  if (operation.op == AluOp::kSet && operation.a.kind == OperandKind::kConstant &&
      !fits(operation.a.value, target.bits)) {
    return failure(fmt::format("action '{}': {} does not fit the {} bits of field '{}'",
                               action.name, operation.a.value, target.bits, target.name));
  }
  // One input of a container's ALU comes from the PHV, the other from the PHV or the action data
  // bus. Two inputs from the bus do not exist.
  if (operation.op != AluOp::kSet && operation.a.kind == OperandKind::kParameter &&
      operation.b.kind == OperandKind::kParameter) {
    return failure(
        fmt::format("action '{}': field '{}' is computed from two parameters; an ALU "
                    "takes at most 1 from the action data bus",
                    action.name, target.name));
  }
  return {};
}

/// Checks that an action can run all its operations at once: it must not read a field that it
/// writes, and must not write a field twice.
class ParallelCheck {
 public:
  ParallelCheck(const Program& program, const Action& action)
      : program_(program), action_(action) {}

  void read(FieldId id) {
    if (id != kNone && std::binary_search(written_.begin(), written_.end(), id)) {
      complain(id,
               "is read after the same action has written it; an action's operations run at once, "
               "in 1 stage");
    }
  }
  void read(const Operand& operand) {
    if (operand.kind == OperandKind::kField) read(static_cast<FieldId>(operand.value));
  }
  void write(FieldId id) {
    if (id == kNone) return;
    if (std::binary_search(written_.begin(), written_.end(), id)) {
      complain(id, "is written twice; a container's ALU runs 1 time per stage");
    }
    insert(written_, id);
  }
  [[nodiscard]] Result<void> outcome() const {
    return text_.empty() ? Result<void>{} : failure(text_);
  }

 private:
  void complain(FieldId id, const char* what) {
    if (!text_.empty()) return;
    text_ = fmt::format("action '{}': field '{}' {}", action_.name, program_.fields[id].name, what);
  }
  const Program& program_;
  const Action& action_;
  FieldSet written_;
  std::string text_;
};

Result<void> check_parallel(const Program& program, const Action& action) {
  ParallelCheck check(program, action);
  for (const FieldId target : action.random_draws) check.write(target);
  for (const HashCall& hash : action.hashes) {
    for (const FieldId input : hash.inputs) check.read(input);
    check.write(hash.target);
  }
  for (const RegisterCall& call : action.register_calls) {
    check.read(call.index);
    for (const FieldId input : call.inputs) check.read(input);
    check.write(call.output);
  }
  for (const CounterCall& call : action.counts) check.read(call.index);
  for (const Operation& operation : action.operations) {
    check.read(operation.a);
    if (operation.op != AluOp::kSet) check.read(operation.b);
    check.write(operation.target);
  }
  return check.outcome();
}

Result<void> check_calls(const Program& program, const Action& action) {
  for (size_t i = 0; i < action.register_calls.size(); i++) {
    const RegisterCall& call = action.register_calls[i];
    const Register& reg = program.registers[call.reg];
    if (call.action >= reg.actions.size()) {
      return failure(fmt::format("action '{}': register '{}' has no action {}", action.name,
                                 reg.name, call.action));
    }
    for (size_t j = 0; j < i; j++) {
      if (action.register_calls[j].reg == call.reg) {
        return failure(
            fmt::format("action '{}': register '{}' is accessed twice in one pass; a "
                        "register allows 1 access per packet",
                        action.name, reg.name));
      }
    }
    for (const FieldId input : call.inputs) {
      if (input != kNone && program.fields[input].bits > reg.bits) {
        return failure(
            fmt::format("action '{}': field '{}' has {} bits, but the words of register "
                        "'{}' have {}",
                        action.name, program.fields[input].name, program.fields[input].bits,
                        reg.name, reg.bits));
      }
    }
  }
  return {};
}

}  // namespace

Result<void> check_actions(const Program& program) {
  for (const Action& action : program.actions) {
    for (const Operation& operation : action.operations) {
      if (auto good = check_operation(program, action, operation); !good) return good;
    }
    for (const uint32_t bits : action.parameter_bits) {
      if (bits < 1 || bits > kFieldBitsMax) {
        return failure(fmt::format("action '{}': a parameter of {} bits; allowed: 1 to {}",
                                   action.name, bits, kFieldBitsMax));
      }
    }
    if (auto good = check_calls(program, action); !good) return good;
    if (auto good = check_parallel(program, action); !good) return good;
  }
  return {};
}

Result<void> check_entry(const Program& program, const Table& table, const Entry& entry) {
  if (entry.keys.size() != table.keys.size()) {
    return failure(fmt::format("table '{}': an entry has {} keys; the table has {}", table.name,
                               entry.keys.size(), table.keys.size()));
  }
  for (size_t i = 0; i < entry.keys.size(); i++) {
    const Field& key = program.fields[table.keys[i].field];
    if (!fits(entry.keys[i].value, key.bits)) {
      return failure(fmt::format("table '{}': {} does not fit the {} bits of key '{}'", table.name,
                                 entry.keys[i].value, key.bits, key.name));
    }
    const uint32_t full = key.bits >= 32 ? 0xffffffff : (1U << key.bits) - 1;
    if (table.keys[i].kind == MatchKind::kExact && (entry.keys[i].mask & full) != full) {
      return failure(
          fmt::format("table '{}': key '{}' is exact and takes no mask", table.name, key.name));
    }
    if ((entry.keys[i].value & ~entry.keys[i].mask) != 0) {
      return failure(fmt::format("table '{}': key '{}' has the value {:#x} outside its mask {:#x}",
                                 table.name, key.name, entry.keys[i].value, entry.keys[i].mask));
    }
  }
  if (std::find(table.actions.begin(), table.actions.end(), entry.action) == table.actions.end()) {
    return failure(
        fmt::format("table '{}': an entry's action is not in the table's list", table.name));
  }
  const Action& action = program.actions[entry.action];
  if (entry.parameters.size() != action.parameter_bits.size()) {
    return failure(fmt::format("table '{}': action '{}' takes {} parameters, not {}", table.name,
                               action.name, action.parameter_bits.size(), entry.parameters.size()));
  }
  for (size_t i = 0; i < entry.parameters.size(); i++) {
    if (!fits(entry.parameters[i], action.parameter_bits[i])) {
      return failure(
          fmt::format("table '{}': {} does not fit the {} bits of parameter {} of "
                      "action '{}'",
                      table.name, entry.parameters[i], action.parameter_bits[i], i, action.name));
    }
  }
  return {};
}

Result<void> check_tables(const Program& program) {
  for (const Table& table : program.tables) {
    if (table.entries.size() > table.size) {
      return failure(fmt::format("table '{}' has {} entries; its size is {}", table.name,
                                 table.entries.size(), table.size));
    }
    if (!table.keys.empty() && table.size == 0) {
      return failure(
          fmt::format("table '{}' has keys and the size 0; allowed: 1 or more", table.name));
    }
    if (table.stage && *table.stage >= kStages) {
      return failure(fmt::format("table '{}' is pinned to stage {}; a pipe has {} (0 to {})",
                                 table.name, *table.stage, kStages, kStages - 1));
    }
    if (table.default_action != kNone &&
        table.default_parameters.size() !=
            program.actions[table.default_action].parameter_bits.size()) {
      return failure(fmt::format("table '{}': the default action '{}' takes {} parameters, not {}",
                                 table.name, program.actions[table.default_action].name,
                                 program.actions[table.default_action].parameter_bits.size(),
                                 table.default_parameters.size()));
    }
    for (const Entry& entry : table.entries) {
      if (auto good = check_entry(program, table, entry); !good) return good;
    }
  }
  return {};
}

Result<void> check_program(const Program& program) {
  for (const auto check : {check_references, check_registers, check_actions, check_tables,
                           check_flow, check_parsers}) {
    if (auto good = check(program); !good) {
      return failure(fmt::format("program '{}': {}", program.name, good.error().text));
    }
  }
  return {};
}

}  // namespace tributary::tofino

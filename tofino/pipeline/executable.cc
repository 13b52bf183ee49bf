// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipeline/executable.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::tofino {
namespace {

template <class T>
uint32_t size_of(const std::vector<T>& list) {
  return static_cast<uint32_t>(list.size());
}

/// The fields of the packet's headers that one gress reads and writes.
struct GressUse {
  GressUse(const Program& program, const Placement& placement, bool ingress)
      : read(program.fields.size()), group_written(program.fields.size()) {
    std::vector<bool> written(program.fields.size());
    for (const Unit& unit : placement.units) {
      if (unit.ingress != ingress) continue;
      for (const FieldId id : unit.match_reads) read[id] = true;
      for (const FieldId id : unit.action_reads) read[id] = true;
      for (const FieldId id : unit.writes) written[id] = true;
    }
    const Gress& gress = ingress ? program.ingress : program.egress;
    for (const ParserState& state : gress.parser) {
      for (const FieldId id : state.select) read[id] = true;
      for (const auto& [id, value] : state.sets) written[id] = true;
    }
    for (const Checksum& checksum : gress.checksums) {
      const Header& header = program.headers[checksum.header];
      for (uint32_t i = 0; i < header.count; i++) read[header.first + i] = true;
      written[checksum.target] = true;
    }
    for (const Header& header : program.headers) {
      for (const FieldGroup& group : groups_of(program, header)) {
        bool any = false;
        for (uint32_t i = 0; i < group.count; i++) any = any || written[group.first + i];
        for (uint32_t i = 0; i < group.count; i++) group_written[group.first + i] = any;
      }
    }
  }
  std::vector<bool> read;
  std::vector<bool> group_written;
};

/// Compiles one program.
class Compiler {
 public:
  explicit Compiler(Executable& to) : to_(to), program_(*to.program) {
    to_.zero_word = static_cast<uint16_t>(program_.fields.size());
    to_.unread_word = static_cast<uint16_t>(to_.zero_word + 1);
    to_.phv_words = to_.unread_word + 1U;
  }

  [[nodiscard]] Result<void> run() {
    if (elided()) {
      if (auto good = check_values(); !good) return good;
    }
    for (const bool ingress : {true, false}) {
      const GressUse use(program_, *to_.placement, ingress);
      for (HeaderId id = 0; id < program_.headers.size(); id++) add(id, use);
    }
    for (const Register& reg : program_.registers) {
      add_to_bank(reg);
      to_.register_action_first.push_back(size_of(to_.register_actions));
      for (const RegisterAction& action : reg.actions)
        to_.register_actions.emplace_back(reg, action);
    }
    for (const Action& action : program_.actions) add(action);
    add(program_.ingress, to_.ingress);
    add(program_.egress, to_.egress);
    return {};
  }

 private:
  [[nodiscard]] bool elided() const { return to_.payload == Payload::kElided; }
  [[nodiscard]] bool is_value(FieldId id) const {
    if (id == kNone) return false;
    const HeaderId header = program_.fields[id].header;
    return header != kNone && program_.headers[header].payload;
  }
  [[nodiscard]] bool is_value(const Operand& operand) const {
    return operand.kind == OperandKind::kField && is_value(static_cast<FieldId>(operand.value));
  }
  [[nodiscard]] bool is_value(const Operation& operation) const {
    return is_value(operation.a) || (operation.op != AluOp::kSet && is_value(operation.b));
  }

  [[nodiscard]] Result<void> refuse(FieldId id, const std::string& what) const {
    return failure(
        fmt::format("program '{}' cannot run with elided payload: {} depends on field "
                    "'{}'",
                    program_.name, what, program_.fields[id].name));
  }

  /// Refuses a program in which a value decides anything; elided mode has no values.
  [[nodiscard]] Result<void> check_values() const {
    for (const Unit& unit : to_.placement->units) {
      for (const FieldId id : unit.match_reads) {
        if (is_value(id)) return refuse(id, name_of(program_, unit));
      }
    }
    for (const Action& action : program_.actions) {
      for (const Operation& operation : action.operations) {
        if (is_value(operation) && !is_value(operation.target)) {
          const Operand& which = is_value(operation.a) ? operation.a : operation.b;
          return refuse(static_cast<FieldId>(which.value),
                        fmt::format("field '{}'", program_.fields[operation.target].name));
        }
      }
      for (const RegisterCall& call : action.register_calls) {
        const Register& reg = program_.registers[call.reg];
        if (reg.payload && call.output != kNone && !is_value(call.output)) {
          return failure(
              fmt::format("program '{}' cannot run with elided payload: field '{}' "
                          "depends on register '{}'",
                          program_.name, program_.fields[call.output].name, reg.name));
        }
        for (const FieldId id : call.inputs) {
          if (!reg.payload && is_value(id)) {
            return refuse(id, fmt::format("register '{}'", reg.name));
          }
        }
      }
    }
    return {};
  }

  [[nodiscard]] uint32_t mask_of(FieldId id) const {
    const uint32_t bits = program_.fields[id].bits;
    return bits == 32 ? 0xffffffff : (1U << bits) - 1;
  }

  [[nodiscard]] Executable::HeaderField shape_of(FieldId id, uint32_t bit) const {
    const uint32_t bits = program_.fields[id].bits;
    const uint32_t byte_first = bit / 8;
    const uint32_t byte_last = (bit + bits - 1) / 8;
    return {.field = id,
            .byte = static_cast<uint16_t>(byte_first),
            .byte_count = static_cast<uint8_t>(byte_last - byte_first + 1),
            .shift = static_cast<uint8_t>((byte_last + 1) * 8 - (bit + bits)),
            .mask = mask_of(id)};
  }

  /// Adds the fields of a header for which `wanted` is true.
  template <class Wanted>
  [[nodiscard]] Executable::FieldSlice add_fields(const Header& header, Wanted&& wanted) {
    // 0, 1, 2: exactly four bytes, two, one; 3: anything else.
    const auto kind_of = [&](FieldId id, uint32_t bit) {
      const uint32_t bits = program_.fields[id].bits;
      if (bit % 8 != 0) return 3;
      return bits == 32 ? 0 : bits == 16 ? 1 : bits == 8 ? 2 : 3;
    };
    std::array<uint32_t, 5> ends{size_of(to_.header_fields)};
    for (int kind = 0; kind < 4; kind++) {
      uint32_t bit = 0;
      for (uint32_t i = 0; i < header.count; i++) {
        const auto id = static_cast<FieldId>(header.first + i);
        if (kind_of(id, bit) == kind && wanted(id)) to_.header_fields.push_back(shape_of(id, bit));
        bit += program_.fields[id].bits;
      }
      ends[kind + 1] = size_of(to_.header_fields);
    }
    return {ends[0], ends[1], ends[2], ends[3], ends[4]};
  }

  void add(HeaderId id, const GressUse& use) {
    const Header& header = program_.headers[id];
    Executable::HeaderCode code{.bytes = header.bits / 8,
                                .id = id,
                                .valid = header.valid,
                                .first_field = header.first,
                                .elided = elided() && header.payload,
                                .words = true};
    for (uint32_t i = 0; i < header.count; i++) {
      code.words = code.words && program_.fields[header.first + i].bits == 32;
    }
    code.fields = add_fields(header, [](FieldId) { return true; });
    // If the action does not run, a field that it may write keeps its value. Fields that share
    // bytes are written together.
    code.stores = add_fields(header, [&](FieldId field) { return use.group_written[field]; });
    code.loads = add_fields(
        header, [&](FieldId field) { return use.read[field] || use.group_written[field]; });
    to_.headers.push_back(code);
  }

  /// Assigns a register to a bank. Registers of the same shape share one.
  void add_to_bank(const Register& reg) {
    const uint32_t entries = elided() && reg.payload ? 0 : reg.entries;
    for (uint32_t i = 0; i < to_.banks.size(); i++) {
      Executable::BankCode& bank = to_.banks[i];
      if (bank.entries != entries || bank.pair != reg.pair || !reg.payload) continue;
      if (!bank_has_values_[i]) continue;
      to_.bank_of.push_back({i, bank.registers++});
      return;
    }
    to_.bank_of.push_back({size_of(to_.banks), 0});
    to_.banks.push_back({entries, 1, reg.pair});
    bank_has_values_.push_back(reg.payload);
  }

  [[nodiscard]] uint16_t read_word(FieldId id) const { return id == kNone ? to_.zero_word : id; }
  [[nodiscard]] uint16_t write_word(FieldId id) const { return id == kNone ? to_.unread_word : id; }

  void add(const Action& action) {
    using Kind = Executable::MicroKind;
    Slice ops{size_of(to_.micro_ops), 0};
    for (const FieldId target : action.random_draws) {
      to_.micro_ops.push_back(
          {.kind = Kind::kDraw, .target = target, .a = 32 - program_.fields[target].bits});
    }
    for (const HashCall& hash : action.hashes) {
      to_.micro_ops.push_back({.kind = Kind::kHash,
                               .target = hash.target,
                               .a = size_of(to_.hashes),
                               .mask = mask_of(hash.target)});
      const uint32_t first = size_of(to_.field_ids);
      for (const FieldId input : hash.inputs) to_.field_ids.push_back(input);
      to_.hashes.push_back({first, size_of(to_.field_ids)});
    }
    for (const RegisterCall& call : action.register_calls) add(call);
    for (const CounterCall& call : action.counts) {
      to_.micro_ops.push_back({.kind = Kind::kCount, .a = size_of(to_.counts)});
      to_.counts.push_back({call.counter, read_word(call.index)});
    }
    for (const Operation& operation : action.operations) add(operation);
    ops.last = size_of(to_.micro_ops);
    to_.actions.push_back(ops);
  }

  void add(const RegisterCall& call) {
    if (elided() && program_.registers[call.reg].payload) return;
    to_.micro_ops.push_back({.kind = Executable::MicroKind::kCall, .a = size_of(to_.calls)});
    to_.calls.push_back(
        {.reg = call.reg,
         .action = static_cast<uint16_t>(to_.register_action_first[call.reg] + call.action),
         .index = read_word(call.index),
         .inputs = {read_word(call.inputs[0]), read_word(call.inputs[1])},
         .output = write_word(call.output)});
  }

  void add(const Operation& operation) {
    if (elided() && is_value(operation.target)) return;
    using Kind = Executable::MicroKind;
    Kind kind = Kind::kCompute;
    if (operation.op == AluOp::kSet) {
      kind = operation.a.kind == OperandKind::kConstant ? Kind::kSetConstant
             : operation.a.kind == OperandKind::kField  ? Kind::kSetField
                                                        : Kind::kSetParameter;
    }
    to_.micro_ops.push_back({.kind = kind,
                             .op = operation.op,
                             .a_kind = operation.a.kind,
                             .b_kind = operation.b.kind,
                             .target = operation.target,
                             .a = operation.a.value,
                             .b = operation.b.value,
                             .mask = mask_of(operation.target)});
  }

  void add(const Gress& gress, Executable::GressCode& code) {
    code.is_ingress = &gress == &program_.ingress;
    // Index of this gress's first header in `headers`.
    const auto first = code.is_ingress ? 0 : size_of(program_.headers);
    code.states.first = size_of(to_.states);
    for (const ParserState& state : gress.parser) add(state, first);
    code.states.last = size_of(to_.states);
    code.deparser.first = size_of(to_.header_ids);
    for (const HeaderId header : gress.deparser) {
      to_.header_ids.push_back(static_cast<uint16_t>(first + header));
      code.made_bytes += program_.headers[header].bits / 8;
    }
    code.deparser.last = size_of(to_.header_ids);
    code.checksums = gress.checksums;
    code.steps.first = size_of(to_.steps);
    add(gress.control);
    code.steps.last = size_of(to_.steps);
  }

  void add(const ParserState& state, uint32_t headers_first) {
    Executable::StateCode code{};
    code.extracts.first = size_of(to_.header_ids);
    for (const HeaderId header : state.extracts) {
      to_.header_ids.push_back(static_cast<uint16_t>(headers_first + header));
    }
    code.extracts.last = size_of(to_.header_ids);
    code.sets.first = size_of(to_.sets);
    for (const auto& one : state.sets) to_.sets.push_back(one);
    code.sets.last = size_of(to_.sets);
    code.select.first = size_of(to_.selects);
    uint32_t shift = 0;
    for (const FieldId id : state.select) {
      to_.selects.push_back({id, static_cast<uint8_t>(shift)});
      shift += program_.fields[id].bits;
    }
    code.select.last = size_of(to_.selects);
    code.transitions.first = size_of(to_.transitions);
    for (const Transition& transition : state.transitions) {
      Executable::TransitionCode packed{0, 0, transition.next};
      for (size_t i = 0; i < state.select.size(); i++) {
        const uint8_t at = to_.selects[code.select.first + i].shift;
        packed.mask |= (transition.matches[i].mask & mask_of(state.select[i])) << at;
        packed.value |= transition.matches[i].value << at;
      }
      to_.transitions.push_back(packed);
    }
    code.transitions.last = size_of(to_.transitions);
    code.otherwise = state.otherwise;
    to_.states.push_back(code);
  }

  /// Returns true if elided mode leaves nothing of the table: all its actions only moved values.
  [[nodiscard]] bool is_removed(const Statement& statement) const {
    if (!elided() || statement.table == kNone || !statement.then.empty() ||
        !statement.otherwise.empty()) {
      return false;
    }
    for (const ActionId id : actions_of(program_.tables[statement.table])) {
      if (to_.actions[id].first != to_.actions[id].last) return false;
    }
    return true;
  }

  void add(const std::vector<Statement>& statements) {
    previous_table_ = kNone;
    for (const Statement& statement : statements) {
      if (!is_removed(statement)) add(statement);
    }
    previous_table_ = kNone;
  }

  void add(const Statement& statement) {
    const uint32_t at = size_of(to_.steps);
    Executable::Step step{};
    if (statement.table == kNone) {
      step.kind = Executable::StepKind::kCondition;
      step.terms.first = size_of(to_.terms);
      for (const Term& term : statement.terms) {
        to_.terms.push_back({term.mask, term.value, term.field, term.negated});
      }
      step.terms.last = size_of(to_.terms);
      previous_table_ = kNone;
    } else {
      step.kind = Executable::StepKind::kTable;
      step.table = statement.table;
      step.same_keys_as_previous = has_keys_of_previous(statement.table);
      previous_table_ = statement.table;
    }
    to_.steps.push_back(step);
    const bool branches = !statement.then.empty() || !statement.otherwise.empty();
    to_.steps[at].then = at + 1;
    if (branches) add(statement.then);
    if (!statement.otherwise.empty()) {
      const uint32_t jump = size_of(to_.steps);
      to_.steps.push_back({.kind = Executable::StepKind::kJump});
      to_.steps[at].otherwise = jump + 1;
      add(statement.otherwise);
      to_.steps[jump].then = size_of(to_.steps);
    } else {
      to_.steps[at].otherwise = size_of(to_.steps);
    }
  }

  [[nodiscard]] bool has_keys_of_previous(TableId id) const {
    if (previous_table_ == kNone) return false;
    const auto& keys = program_.tables[id].keys;
    const auto& others = program_.tables[previous_table_].keys;
    const bool equal = std::equal(keys.begin(), keys.end(), others.begin(), others.end(),
                                  [](const Key& a, const Key& b) { return a.field == b.field; });
    if (!equal || keys.empty()) return false;
    for (const ActionId action : actions_of(program_.tables[previous_table_])) {
      const ActionUse use = use_of(program_.actions[action]);
      for (const Key& key : keys) {
        if (std::binary_search(use.writes.begin(), use.writes.end(), key.field)) return false;
      }
    }
    return true;
  }

  Executable& to_;
  const Program& program_;
  std::vector<bool> bank_has_values_;  ///< Shape [banks].
  TableId previous_table_ = kNone;     ///< The table applied just before, with no branch between.
};

}  // namespace

Result<Executable> Executable::load(Program program, Payload payload) {
  auto placement = place(program);
  if (!placement) return tl::unexpected(placement.error());
  Executable executable;
  executable.program = std::make_shared<const Program>(std::move(program));
  executable.placement = std::make_shared<const Placement>(std::move(*placement));
  executable.payload = payload;
  Compiler compiler(executable);
  if (auto good = compiler.run(); !good) return tl::unexpected(good.error());
  return executable;
}

}  // namespace tributary::tofino

// SPDX-License-Identifier: Apache-2.0
// Checks of references, control flow, parser and deparser.
#include <fmt/format.h>

#include <algorithm>

#include "tofino/compile/check.h"
#include "tofino/compile/flow.h"
#include "tofino/compile/phv.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

/// Checks that each index refers to something; keeps the first error.
class ReferenceCheck {
 public:
  explicit ReferenceCheck(const Program& program) : program_(program) {}

  void run() {
    for (const Header& header : program_.headers) check(header);
    for (const Action& action : program_.actions) check(action);
    for (const Table& table : program_.tables) check(table);
    check(program_.ingress, "ingress");
    check(program_.egress, "egress");
    const Intrinsics& in = program_.intrinsics;
    for (const FieldId id : {in.ingress_port, in.egress_port, in.egress_valid, in.multicast_group,
                             in.drop, in.resubmit, in.resubmitted, in.mirror_session,
                             in.bypass_egress, in.replication_id, in.egress_leaving}) {
      optional_field(id, "the intrinsics");
    }
  }
  [[nodiscard]] Result<void> outcome() const {
    return text_.empty() ? Result<void>{} : failure(text_);
  }

 private:
  void complain(std::string text) {
    if (text_.empty()) text_ = std::move(text);
  }
  void expect(size_t id, size_t count, const char* kind, const std::string& where) {
    if (id >= count) {
      complain(fmt::format("{}: {} {} does not exist; there are {}", where, kind, id, count));
    }
  }
  void field(FieldId id, const std::string& where) {
    expect(id, program_.fields.size(), "field", where);
  }
  void optional_field(FieldId id, const std::string& where) {
    if (id != kNone) field(id, where);
  }
  void operand(const Operand& operand, const std::string& where) {
    if (operand.kind == OperandKind::kField) {
      expect(operand.value, program_.fields.size(), "field", where);
    }
  }

  void check(const Header& header) {
    const std::string where = fmt::format("header '{}'", header.name);
    field(header.valid, where);
    expect(size_t{header.first} + header.count, program_.fields.size() + 1, "field", where);
  }

  void check(const Action& action) {
    const std::string where = fmt::format("action '{}'", action.name);
    for (const FieldId id : action.random_draws) field(id, where);
    for (const HashCall& hash : action.hashes) {
      field(hash.target, where);
      for (const FieldId id : hash.inputs) field(id, where);
    }
    for (const RegisterCall& call : action.register_calls) {
      expect(call.reg, program_.registers.size(), "register", where);
      for (const FieldId id : {call.index, call.inputs[0], call.inputs[1], call.output}) {
        optional_field(id, where);
      }
    }
    for (const CounterCall& call : action.counts) {
      expect(call.counter, program_.counters.size(), "counter", where);
      optional_field(call.index, where);
    }
    for (const Operation& operation : action.operations) {
      field(operation.target, where);
      operand(operation.a, where);
      operand(operation.b, where);
    }
  }

  void check(const Table& table) {
    const std::string where = fmt::format("table '{}'", table.name);
    for (const Key& key : table.keys) field(key.field, where);
    for (const ActionId id : actions_of(table)) {
      expect(id, program_.actions.size(), "action", where);
    }
  }

  void check(const std::vector<Statement>& statements, const std::string& where) {
    for (const Statement& statement : statements) {
      if (statement.table != kNone) {
        expect(statement.table, program_.tables.size(), "table", where);
      }
      for (const Term& term : statement.terms) field(term.field, where);
      check(statement.then, where);
      check(statement.otherwise, where);
    }
  }

  void check(const Gress& gress, const std::string& where) {
    check(gress.control, where);
    const auto state = [&](StateId id) {
      if (id != kAccept && id != kReject) expect(id, gress.parser.size(), "parser state", where);
    };
    for (const ParserState& from : gress.parser) {
      for (const HeaderId id : from.extracts) {
        expect(id, program_.headers.size(), "header", where);
      }
      for (const auto& [id, value] : from.sets) field(id, where);
      for (const FieldId id : from.select) field(id, where);
      for (const Transition& transition : from.transitions) state(transition.next);
      state(from.otherwise);
    }
    for (const HeaderId id : gress.deparser) {
      expect(id, program_.headers.size(), "header", where);
    }
    for (const Checksum& checksum : gress.checksums) {
      expect(checksum.header, program_.headers.size(), "header", where);
      field(checksum.target, where);
    }
  }

  const Program& program_;
  std::string text_;
};

Result<void> check_widths(const Program& program) {
  for (const Field& field : program.fields) {
    if (field.bits < 1 || field.bits > kFieldBitsMax) {
      return failure(fmt::format("field '{}' has {} bits; allowed: 1 to {}", field.name, field.bits,
                                 kFieldBitsMax));
    }
  }
  for (const Header& header : program.headers) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < header.count; i++) bits += program.fields[header.first + i].bits;
    if (bits != header.bits || bits % 8 != 0 || bits == 0) {
      return failure(
          fmt::format("header '{}' has {} bits; allowed: whole bytes", header.name, bits));
    }
    for (const FieldGroup& group : groups_of(program, header)) {
      if (group.bits > kFieldBitsMax) {
        return failure(
            fmt::format("header '{}': the fields from '{}' on share bytes over {} bits; "
                        "allowed: {}",
                        header.name, program.fields[group.first].name, group.bits, kFieldBitsMax));
      }
    }
  }
  return {};
}

/// Refuses two units that use the same memory, if a packet can reach both.
template <class Uses>
Result<void> check_one_access(const Program& program, const std::vector<Unit>& units,
                              const char* kind, const std::string& name, Uses&& uses) {
  const Unit* earlier = nullptr;
  for (size_t i = 0; i < units.size(); i++) {
    if (units[i].table == kNone || !uses(program.tables[units[i].table])) continue;
    for (size_t j = 0; j < i; j++) {
      if (units[j].table == kNone || !uses(program.tables[units[j].table])) continue;
      if (exclusive(units[j], units[i])) continue;
      return failure(
          fmt::format("{} '{}' is accessed by {} and {} in one pass; a {} allows 1 "
                      "access per packet",
                      kind, name, name_of(program, units[j]), name_of(program, units[i]), kind));
    }
    if (earlier != nullptr && earlier->ingress != units[i].ingress) {
      return failure(fmt::format(
          "{} '{}' is accessed by ingress and egress; a {} belongs to 1 gress", kind, name, kind));
    }
    earlier = &units[i];
  }
  return {};
}

Result<void> check_conditions(const Program& program, const std::vector<Unit>& units) {
  for (const Unit& unit : units) {
    if (unit.table != kNone) continue;
    uint32_t bits = 0;
    for (const FieldId id : unit.match_reads) bits += program.fields[id].bits;
    if (bits > kGatewayBits) {
      return failure(fmt::format("{} reads {} bits; a gateway reads {}", name_of(program, unit),
                                 bits, kGatewayBits));
    }
    for (const Term& term : unit.terms) {
      if ((term.value & ~term.mask) != 0) {
        return failure(fmt::format("{}: the value {:#x} lies outside its mask {:#x}",
                                   name_of(program, unit), term.value, term.mask));
      }
    }
  }
  return {};
}

/// Returns the rows beyond the first that a state needs; one row fills 4 containers of each size.
uint32_t further_rows(const Program& program, const ParserState& state) {
  std::array<uint32_t, 3> containers{};  // 8, 16 and 32 bits.
  for (const HeaderId id : state.extracts) {
    for (const FieldGroup& group : groups_of(program, program.headers[id])) {
      containers[group.bits <= 8 ? 0 : group.bits <= 16 ? 1 : 2]++;
    }
  }
  const uint32_t most = *std::max_element(containers.begin(), containers.end());
  return most == 0 ? 0 : (most - 1) / kParserExtractsPerSize;
}

/// Finds the longest path through the parser, in bytes. It visits each state at most once.
class ParserWalk {
 public:
  ParserWalk(const Program& program, const Gress& gress)
      : program_(program), gress_(gress), open_(gress.parser.size()), bytes_(gress.parser.size()) {}

  /// @return false if a state can follow itself.
  bool walk(StateId id, uint32_t& bytes) {
    bytes = 0;
    if (id == kAccept || id == kReject) return true;
    if (open_[id]) {
      again_ = id;
      return false;
    }
    if (bytes_[id]) {
      bytes = *bytes_[id];
      return true;
    }
    open_[id] = true;
    const ParserState& state = gress_.parser[id];
    uint32_t longest = 0;
    for (size_t i = 0; i <= state.transitions.size(); i++) {
      const bool last = i == state.transitions.size();
      if (!walk(last ? state.otherwise : state.transitions[i].next, bytes)) return false;
      longest = std::max(longest, bytes);
    }
    for (const HeaderId header : state.extracts) longest += program_.headers[header].bits / 8;
    open_[id] = false;
    bytes_[id] = bytes = longest;
    return true;
  }
  [[nodiscard]] const std::string& again() const { return gress_.parser[again_].name; }

 private:
  const Program& program_;
  const Gress& gress_;
  std::vector<bool> open_;
  std::vector<std::optional<uint32_t>> bytes_;
  StateId again_ = 0;
};

Result<void> check_select(const Program& program, const ParserState& state, const char* gress) {
  uint32_t match_bits = 0;
  for (const FieldId id : state.select) match_bits += program.fields[id].bits;
  if (match_bits > kParserMatchBits) {
    return failure(fmt::format("{} parser, state '{}' selects on {} bits; a row matches {}", gress,
                               state.name, match_bits, kParserMatchBits));
  }
  for (const Transition& transition : state.transitions) {
    if (transition.matches.size() != state.select.size()) {
      return failure(
          fmt::format("{} parser, state '{}': a transition has {} matches; the state selects "
                      "on {} fields",
                      gress, state.name, transition.matches.size(), state.select.size()));
    }
    for (size_t i = 0; i < state.select.size(); i++) {
      const Field& field = program.fields[state.select[i]];
      const Match& match = transition.matches[i];
      const uint64_t shown = match.mask & ((uint64_t{1} << field.bits) - 1);
      if ((match.value & ~shown) == 0) continue;
      return failure(fmt::format(
          "{} parser, state '{}': no value of field '{}' ({} bits) matches {:#x} with the mask "
          "{:#x}",
          gress, state.name, field.name, field.bits, match.value, match.mask));
    }
  }
  return {};
}

Result<void> check_parser(const Program& program, const Gress& gress, bool ingress) {
  const char* name = ingress ? "ingress" : "egress";
  if (gress.parser.empty()) return {};
  for (const ParserState& state : gress.parser) {
    if (auto good = check_select(program, state, name); !good) return good;
  }
  const uint32_t rows = parser_rows(program, gress);
  if (rows > kParserRows) {
    return failure(
        fmt::format("{} parser takes {} rows; a parser has {}", name, rows, kParserRows));
  }
  ParserWalk walk(program, gress);
  uint32_t bytes = 0;
  if (!walk.walk(0, bytes)) {
    return failure(fmt::format(
        "{} parser, state '{}' can follow itself; a header is read only once", name, walk.again()));
  }
  const uint32_t limit = ingress ? kIngressParserBytes : kEgressParserBytes;
  if (bytes > limit) {
    return failure(
        fmt::format("{} parser reads up to {} bytes; at most {} are allowed", name, bytes, limit));
  }
  if (gress.checksums.size() > kDeparserChecksums) {
    return failure(fmt::format("{} deparser has {} checksums; the chip has {}", name,
                               gress.checksums.size(), kDeparserChecksums));
  }
  for (const Checksum& checksum : gress.checksums) {
    const Header& header = program.headers[checksum.header];
    if (header.bits % 16 != 0 || header.bits / 8 > kChecksumHeaderBytes) {
      return failure(
          fmt::format("{} deparser: a checksum covers the {} bytes of header '{}'; "
                      "allowed: an even number up to {}",
                      name, header.bits / 8, header.name, kChecksumHeaderBytes));
    }
  }
  return {};
}

}  // namespace

uint32_t parser_rows(const Program& program, const Gress& gress) {
  uint32_t rows = 0;
  for (const ParserState& state : gress.parser) {
    rows += static_cast<uint32_t>(state.transitions.size()) + 1 + further_rows(program, state);
  }
  return rows;
}

Result<void> check_references(const Program& program) {
  ReferenceCheck references(program);
  references.run();
  if (auto good = references.outcome(); !good) return good;
  return check_widths(program);
}

Result<void> check_flow(const Program& program) {
  const std::vector<Unit> units = units_of(program);
  std::vector<bool> applied(program.tables.size());
  for (const Unit& unit : units) {
    if (unit.table == kNone) continue;
    if (applied[unit.table]) {
      return failure(fmt::format("table '{}' is applied twice; a table has only 1 place",
                                 program.tables[unit.table].name));
    }
    applied[unit.table] = true;
  }
  if (auto good = check_conditions(program, units); !good) return good;
  for (RegisterId id = 0; id < program.registers.size(); id++) {
    const auto uses = [&](const Table& table) {
      for (const ActionId action : actions_of(table)) {
        for (const RegisterCall& call : program.actions[action].register_calls) {
          if (call.reg == id) return true;
        }
      }
      return false;
    };
    auto good = check_one_access(program, units, "register", program.registers[id].name, uses);
    if (!good) return good;
  }
  for (CounterId id = 0; id < program.counters.size(); id++) {
    const auto uses = [&](const Table& table) {
      for (const ActionId action : actions_of(table)) {
        for (const CounterCall& call : program.actions[action].counts) {
          if (call.counter == id) return true;
        }
      }
      return false;
    };
    auto good = check_one_access(program, units, "counter", program.counters[id].name, uses);
    if (!good) return good;
  }
  return {};
}

Result<void> check_parsers(const Program& program) {
  if (auto good = check_parser(program, program.ingress, true); !good) return good;
  return check_parser(program, program.egress, false);
}

}  // namespace tributary::tofino

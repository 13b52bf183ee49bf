// SPDX-License-Identifier: Apache-2.0
#include "tofino/program/program_builder.h"

namespace tributary::tofino {
namespace {

template <class T>
uint16_t append(std::vector<T>& list, T item) {
  list.push_back(std::move(item));
  return static_cast<uint16_t>(list.size() - 1);
}

}  // namespace

FieldId ProgramBuilder::metadata(std::string name, uint32_t bits) {
  return append(program.fields, Field{.name = std::move(name), .bits = bits});
}

HeaderId ProgramBuilder::header(const std::string& name, const std::vector<FieldShape>& fields,
                                bool payload) {
  const auto id = static_cast<HeaderId>(program.headers.size());
  Header header{.name = name,
                .first = static_cast<FieldId>(program.fields.size()),
                .count = static_cast<uint32_t>(fields.size()),
                .payload = payload};
  for (const FieldShape& shape : fields) {
    program.fields.push_back({.name = name + "." + shape.name, .bits = shape.bits, .header = id});
    header.bits += shape.bits;
  }
  header.valid = metadata(name + ".$valid", 1);
  return append(program.headers, std::move(header));
}

HeaderId ProgramBuilder::ethernet_header() {
  return header(
      "ethernet",
      {{"to_high", 32}, {"to_low", 16}, {"from_high", 32}, {"from_low", 16}, {"type", 16}});
}

HeaderId ProgramBuilder::ipv4_header() {
  return header("ip", {{"version_words", 8},
                       {"service", 8},
                       {"length", 16},
                       {"id", 16},
                       {"fragment", 16},
                       {"time_to_live", 8},
                       {"protocol", 8},
                       {"checksum", 16},
                       {"from", 32},
                       {"to", 32}});
}

TableId ProgramBuilder::always(Action action) {
  const std::string name = action.name;
  const ActionId id = add(std::move(action));
  return add(Table{.name = name, .default_action = id});
}

FieldId ProgramBuilder::field_of(HeaderId header, const std::string& name) const {
  const Header& of = program.headers[header];
  const std::string full = of.name + "." + name;
  for (uint32_t i = 0; i < of.count; i++) {
    if (program.fields[of.first + i].name == full) return static_cast<FieldId>(of.first + i);
  }
  return kNone;
}

RegisterId ProgramBuilder::add(Register reg) { return append(program.registers, std::move(reg)); }
CounterId ProgramBuilder::add(Counter counter) {
  return append(program.counters, std::move(counter));
}
ActionId ProgramBuilder::add(Action action) { return append(program.actions, std::move(action)); }
TableId ProgramBuilder::add(Table table) { return append(program.tables, std::move(table)); }

Statement apply(TableId table, std::vector<Statement> on_hit, std::vector<Statement> on_miss) {
  return {.table = table, .terms = {}, .then = std::move(on_hit), .otherwise = std::move(on_miss)};
}

Statement when(std::vector<Term> terms, std::vector<Statement> then,
               std::vector<Statement> otherwise) {
  return {.table = kNone,
          .terms = std::move(terms),
          .then = std::move(then),
          .otherwise = std::move(otherwise)};
}

Operation set(FieldId target, Operand a) { return {.op = AluOp::kSet, .target = target, .a = a}; }

Operation alu(AluOp op, FieldId target, Operand a, Operand b) {
  return {.op = op, .target = target, .a = a, .b = b};
}

}  // namespace tributary::tofino

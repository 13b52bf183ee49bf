// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds a Program by hand: adds parts and returns their indices.
///
/// Errors:  None here; check_program() finds errors in the program.
/// Tests:   tests/tofino/compile/check_test.cc, and every program in tests/tofino.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "tofino/program/program.h"

namespace tributary::tofino {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name) { program.name = std::move(name); }

  FieldId metadata(std::string name, uint32_t bits);

  struct FieldShape {
    std::string name;
    uint32_t bits;
  };
  /// Adds a header and its fields, named "header.field", in wire order.
  HeaderId header(const std::string& name, const std::vector<FieldShape>& fields,
                  bool payload = false);
  /// Add the headers "ethernet" (to_high, to_low, from_high, from_low, type) and "ip": IPv4 without
  /// options.
  HeaderId ethernet_header();
  HeaderId ipv4_header();
  /// Returns the field "header.field"; kNone if there is none.
  [[nodiscard]] FieldId field_of(HeaderId header, const std::string& name) const;
  [[nodiscard]] FieldId valid_of(HeaderId header) const { return program.headers[header].valid; }

  RegisterId add(Register reg);
  CounterId add(Counter counter);
  ActionId add(Action action);
  TableId add(Table table);
  /// Adds a table without keys that always runs the action, under the action's name.
  TableId always(Action action);

  Program program;
};

/// Statements.
[[nodiscard]] Statement apply(TableId table, std::vector<Statement> on_hit = {},
                              std::vector<Statement> on_miss = {});
[[nodiscard]] Statement when(std::vector<Term> terms, std::vector<Statement> then,
                             std::vector<Statement> otherwise = {});

/// Operations.
[[nodiscard]] Operation set(FieldId target, Operand a);
[[nodiscard]] Operation alu(AluOp op, FieldId target, Operand a, Operand b);

/// Matches.
[[nodiscard]] constexpr Match exactly(uint32_t value) { return {value, 0xffffffff}; }
[[nodiscard]] constexpr Match any_value() { return {0, 0}; }

}  // namespace tributary::tofino

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the limits of the chip that do not depend on the placement of tables: widths, the
/// operations of actions and stateful ALUs, one access per register and packet, and the size of
/// parser and deparser.
///
/// Errors:  The first thing that does not fit, in one line that names the limit, its number and the
///          place: "register 'sum' is accessed by table 'a' and table 'b' in one pass; a register
///          allows 1 access per packet".
/// Threads: None; pure functions.
/// Tests:   tests/tofino/compile/check_test.cc
#pragma once

#include "base/result.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

[[nodiscard]] Result<void> check_program(const Program& program);

/// The parts of check_program(), in the order of their calls. Each relies on those before it.
[[nodiscard]] Result<void> check_references(const Program& program);
[[nodiscard]] Result<void> check_registers(const Program& program);
[[nodiscard]] Result<void> check_actions(const Program& program);
[[nodiscard]] Result<void> check_tables(const Program& program);
[[nodiscard]] Result<void> check_flow(const Program& program);
[[nodiscard]] Result<void> check_parsers(const Program& program);

/// Checks that an entry suits its table: number of keys, widths, action and parameters.
[[nodiscard]] Result<void> check_entry(const Program& program, const Table& table,
                                       const Entry& entry);

/// Returns the TCAM rows of a gress's parser. Each transition takes a row. Each further group of
/// containers that a state fills takes one more.
[[nodiscard]] uint32_t parser_rows(const Program& program, const Gress& gress);

}  // namespace tributary::tofino

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The limits of the chip that do not depend on where a table is placed: widths, what an action and
/// a stateful ALU can say, one access per register and packet, the parser's and deparser's size.
///
/// Errors:  The first thing that does not fit, in one line that names the limit, its number and the
///          place: "register 'sum' is accessed by table 'a' and table 'b' in one pass; a register
///          allows 1 access a packet".
/// Threads: None; pure functions.
/// Tests:   tests/tofino/compile/check_test.cc
#pragma once

#include "base/result.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

[[nodiscard]] Result<void> check_program(const Program& program);

/// The parts, in the order in which check_program() asks them; each relies on those before it.
[[nodiscard]] Result<void> check_references(const Program& program);
[[nodiscard]] Result<void> check_registers(const Program& program);
[[nodiscard]] Result<void> check_actions(const Program& program);
[[nodiscard]] Result<void> check_tables(const Program& program);
[[nodiscard]] Result<void> check_flow(const Program& program);
[[nodiscard]] Result<void> check_parsers(const Program& program);

/// Whether an entry suits its table: number of keys, widths, action and parameters.
[[nodiscard]] Result<void> check_entry(const Program& program, const Table& table,
                                       const Entry& entry);

/// TCAM rows of a gress's parser: a row a transition, and one more for each further group of
/// containers that its state fills.
[[nodiscard]] uint32_t parser_rows(const Program& program, const Gress& gress);

}  // namespace tributary::tofino

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program's control as a list: its tables and conditions in program order, with the fields that
/// each reads and writes. Checks, placement and the resource report work on it.
///
/// Threads: None; pure functions.
/// Errors:  None; the program's references are sound (check_references()).
/// Tests:   tests/tofino/compile/placement_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tofino/program/program.h"

namespace tributary::tofino {

/// Sorted, each once.
using FieldSet = std::vector<FieldId>;

struct ActionUse {
  FieldSet reads;
  FieldSet writes;
};
[[nodiscard]] ActionUse use_of(const Action& action);
/// Inputs, index and output of the calls to stateful ALUs and counters are among use_of(); this is
/// the part of the reads that reaches the stage's hash and crossbar instead of its action ALUs.
[[nodiscard]] FieldSet memory_reads_of(const Action& action);

/// The way to a unit: it runs only if the unit `node` came out as `taken`.
struct Branch {
  uint32_t node = 0;
  bool taken = true;
};

/// A table or a condition.
struct Unit {
  bool ingress = true;
  TableId table = kNone;  ///< kNone: a condition.
  std::vector<Term> terms = {};
  std::vector<Branch> path = {};  ///< From the outermost.
  FieldSet match_reads = {};      ///< Needed when the stage begins: keys, terms.
  FieldSet action_reads = {};
  FieldSet writes = {};
};

/// Both gresses' units in program order, ingress first.
[[nodiscard]] std::vector<Unit> units_of(const Program& program);

/// Whether no packet can reach both.
[[nodiscard]] bool exclusive(const Unit& a, const Unit& b);

/// "table 'x'" or "condition on 'f'", for messages.
[[nodiscard]] std::string name_of(const Program& program, const Unit& unit);

/// All actions that a table can run, each once: its list and its default.
[[nodiscard]] std::vector<ActionId> actions_of(const Table& table);

/// The first field in both; kNone if there is none.
[[nodiscard]] FieldId first_common(const FieldSet& a, const FieldSet& b);
void insert(FieldSet& set, FieldId id);

}  // namespace tributary::tofino

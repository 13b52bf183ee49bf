// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program's control as a list of tables and conditions in program order, with the fields that
/// each reads and writes. Checks, placement and the resource report use it.
///
/// Threads: None; pure functions.
/// Errors:  None; the program's references must be valid (check_references()).
/// Tests:   tests/tofino/compile/placement_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tofino/program/program.h"

namespace tributary::tofino {

/// Sorted, without duplicates.
using FieldSet = std::vector<FieldId>;

struct ActionUse {
  FieldSet reads;
  FieldSet writes;
};
[[nodiscard]] ActionUse use_of(const Action& action);
/// Returns the reads that go to the stage's hash and crossbar instead of its action ALUs: inputs
/// and indices of calls to hashes, stateful ALUs and counters. use_of() includes them.
[[nodiscard]] FieldSet memory_reads_of(const Action& action);

/// A step on the path to a unit: the unit runs only if the unit `node` had the outcome `taken`.
struct Branch {
  uint32_t node = 0;
  bool taken = true;
};

/// A table or a condition.
struct Unit {
  bool ingress = true;
  TableId table = kNone;  ///< kNone for a condition.
  std::vector<Term> terms = {};
  std::vector<Branch> path = {};  ///< Outermost first.
  FieldSet match_reads = {};      ///< Fields needed when the stage begins: keys, terms.
  FieldSet action_reads = {};
  FieldSet writes = {};
};

/// Returns the units of both gresses in program order, ingress first.
[[nodiscard]] std::vector<Unit> units_of(const Program& program);

/// Returns true if no packet can reach both units.
[[nodiscard]] bool exclusive(const Unit& a, const Unit& b);

/// Returns "table 'x'" or "condition on 'f'", for messages.
[[nodiscard]] std::string name_of(const Program& program, const Unit& unit);

/// Returns all actions that a table can run, each once: its list and its default.
[[nodiscard]] std::vector<ActionId> actions_of(const Table& table);

/// Returns the first field in both sets; kNone if there is none.
[[nodiscard]] FieldId first_common(const FieldSet& a, const FieldSet& b);
void insert(FieldSet& set, FieldId id);

}  // namespace tributary::tofino

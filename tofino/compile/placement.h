// SPDX-License-Identifier: Apache-2.0
/// @file
/// Places a program's tables and conditions in the stages of a pipe, or explains why they do not
/// fit. DependencyKind says which units need an earlier stage than others.
///
/// Model:   Stages are filled in order; in each, units with the longest chain of later stages come
///          first. Ingress and egress share the stages. Units that share a register share a stage.
/// Not modelled: tables split over several stages. A table that does not fit an empty stage is
///          refused.
/// Errors:  One line: the need, the limit, the place, and the unit or stage that is in the way.
/// Threads: None; pure functions.
/// Tests:   tests/tofino/compile/placement_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tofino/compile/flow.h"
#include "tofino/compile/phv.h"
#include "tofino/compile/resources.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

/// How a unit depends on an earlier one in program order, if a packet can reach both.
enum class DependencyKind : uint8_t {
  kIndependent,  ///< Any stage.
  kSuccessor,    ///< Same stage or later: runs only by the earlier unit's outcome.
  kAnti,         ///< Same stage or later: writes a field that the earlier unit reads.
  kAction,       ///< A later stage: its action reads or writes a field that the earlier one writes.
  kMatch         ///< A later stage: matches on a field that the earlier unit writes.
};

struct Dependency {
  uint32_t before = 0;  ///< Indices of units.
  uint32_t after = 0;
  DependencyKind kind = DependencyKind::kIndependent;
  FieldId field = kNone;  ///< The field that causes it; kNone for a successor.
};

/// Returns all dependencies of a program, sorted by `after`, then `before`.
[[nodiscard]] std::vector<Dependency> dependencies_of(const std::vector<Unit>& units);
[[nodiscard]] const char* name_of(DependencyKind kind);

struct Placement {
  std::vector<Unit> units;
  std::vector<uint32_t> stage_of;  ///< Shape [units].
  std::vector<StageUse> stages;    ///< Shape [stages used].
  PhvUse phv;
  uint32_t parser_rows_ingress = 0;
  uint32_t parser_rows_egress = 0;
  uint32_t cycles_ingress = 0;  ///< Cycles in the stages.
  uint32_t cycles_egress = 0;
  [[nodiscard]] uint32_t total(Resource resource) const;
};

/// Checks a program (check_program()), allocates its fields to containers and places its units.
[[nodiscard]] Result<Placement> place(const Program& program);

}  // namespace tributary::tofino

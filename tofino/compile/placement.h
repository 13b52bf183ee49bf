// SPDX-License-Identifier: Apache-2.0
/// @file
/// Places a program's tables and conditions in the stages of a pipe, or says why they do not fit.
///
/// Model:   Of two units that a packet can both reach, the later in program order lies
///          * a stage later if it matches on (match dependency), or computes with or writes (action
///            dependency), what the earlier writes;
///          * in the same stage or later if it runs by the earlier's outcome (successor dependency)
///            or writes what the earlier reads (anti-dependency).
///          Stages are filled in order, at each the units with the longest chain behind them first.
///          Ingress and egress share the stages. Units that share a register share its stage.
/// Not modelled: splitting a table over stages; a table that fits no empty stage is refused.
/// Errors:  One line: what is needed, the limit, the place, and what stands before it.
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

enum class DependencyKind : uint8_t { kIndependent, kSuccessor, kAnti, kAction, kMatch };

struct Dependency {
  uint32_t before = 0;  ///< Units.
  uint32_t after = 0;
  DependencyKind kind = DependencyKind::kIndependent;
  FieldId field = kNone;  ///< What it is about; kNone for a successor.
};

/// All of a program's dependencies, by `after`, then `before`.
[[nodiscard]] std::vector<Dependency> dependencies_of(const std::vector<Unit>& units);
[[nodiscard]] const char* name_of(DependencyKind kind);

struct Placement {
  std::vector<Unit> units;
  std::vector<uint32_t> stage_of;  ///< Shape [units].
  std::vector<StageUse> stages;    ///< Shape [stages used].
  PhvUse phv;
  uint32_t parser_rows_ingress = 0;
  uint32_t parser_rows_egress = 0;
  uint32_t cycles_ingress = 0;  ///< In the stages.
  uint32_t cycles_egress = 0;
  [[nodiscard]] uint32_t total(Resource resource) const;
};

/// Checks a program (check_program()), gives its fields containers and places it.
[[nodiscard]] Result<Placement> place(const Program& program);

}  // namespace tributary::tofino

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a placed program takes of the chip, stage by stage: as text for people, as JSON for
/// programs, as a picture.
///
/// Exact:   The same program gives the same bytes.
/// Threads: None; pure functions.
/// Errors:  None.
/// Tests:   tests/tofino/switchml/program_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tofino/compile/placement.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

/// A line a resource, a column a stage, then the sum, what a pipe has, and the share; below, PHV,
/// parser, latency and which tables lie where.
[[nodiscard]] std::string resources_text(const Program& program, const Placement& placement);

/// An object: "program", "stages" (used), "stages_limit", each resource's key with its sum over the
/// stages ("stateful_alus", "sram_blocks", …), "limits" with what a pipe has of each, "phv" and
/// "parser", "latency_cycles", and "per_stage" with the same keys and the tables' names.
[[nodiscard]] nlohmann::ordered_json resources_json(const Program& program,
                                                    const Placement& placement);

/// An SVG document: resources by stages, the darker the fuller, with the numbers.
[[nodiscard]] std::string resources_svg(const Program& program, const Placement& placement);

// --- Programs by name ---------------------------------------------------------------------------

struct NamedProgram {
  std::string_view name;
  std::string_view description;
  /// What it takes beside the stages: passes of a packet, loops and ports; empty for programs that
  /// do not fit. Measured: tests/tofino/switchml/control_test.cc, switchml_timeout_test.cc.
  std::string_view passes = {};
};
/// What `tributary lab resources` knows, in the order in which it lists it.
[[nodiscard]] std::span<const NamedProgram> named_programs();
/// Refuses an unknown name, with those that exist.
[[nodiscard]] Result<Program> make_named_program(std::string_view name);

}  // namespace tributary::tofino

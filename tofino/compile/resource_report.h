// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reports the resources that a placed program takes, stage by stage: as text for people, as JSON
/// for programs, and as a picture.
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

/// Returns a table with a line for each resource: a column per stage, then the sum, the pipe's
/// limit and the share. PHV, parser, latency and the tables of each stage follow.
[[nodiscard]] std::string resources_text(const Program& program, const Placement& placement);

/// Returns an object: "program", "stages" (used), "stages_limit", each resource's key with its sum
/// over the stages ("stateful_alus", "sram_blocks", …), "limits" with a pipe's limits, "phv",
/// "parser", "latency_cycles", and "per_stage" with the same keys and the tables' names.
[[nodiscard]] nlohmann::ordered_json resources_json(const Program& program,
                                                    const Placement& placement);

/// Returns an SVG document: resources by stages with their numbers; fuller cells are darker.
[[nodiscard]] std::string resources_svg(const Program& program, const Placement& placement);

// --- Programs by name ---------------------------------------------------------------------------

struct NamedProgram {
  std::string_view name;
  std::string_view description;
  /// Its needs besides the stages: passes of a packet, loops and ports. Empty for programs that do
  /// not fit. Measured: tests/tofino/switchml/control_test.cc, timeout_test.cc.
  std::string_view passes = {};
};
/// Returns the programs of `tributary lab resources`, in the order of its list.
[[nodiscard]] std::span<const NamedProgram> named_programs();
/// Returns the program of this name. For an unknown name, the error lists the known ones.
[[nodiscard]] Result<Program> make_named_program(std::string_view name);

}  // namespace tributary::tofino

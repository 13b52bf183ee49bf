// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of `tributary serve` that runs a packet program on live traffic: its flag, and the
/// start of the service.
///
/// Threads: One, at the start.
/// Errors:  One line with the flag, the value and the allowed values.
/// Tests:   tests/cli/serve_program_test.cc, tests/system/inline_test.cc,
///          tests/system/inline_dpdk_test.cc, tests/system/vxlan_test.cc
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "io/inline/side_spec.h"
#include "programs/program.h"

namespace tributary::cli {

/// A program of the list, and its settings.
struct ChosenProgram {
  const programs::Program* program;
  KeyValues settings;
};

/// Parses "NAME[,key=value]...".
[[nodiscard]] Result<ChosenProgram> parse_program(std::string_view text);

/// Returns the interfaces, DPDK devices or tunnels of one or two `--port` texts.
[[nodiscard]] Result<std::vector<io::InlineSideSpec>> inline_sides(
    const std::vector<std::string>& ports);

/// Starts the program. Its hashes get a random seed.
[[nodiscard]] Result<std::unique_ptr<programs::LiveService>> start_program(
    const ChosenProgram& chosen, const programs::ServeRequest& request);

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flags of a server's polling cores.
///
/// Threads: One, at the start.
/// Errors:  One line with the flag, the value and the allowed values.
/// Tests:   tests/cli/programs/live_command_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::cli {

struct CoreFlags {
  uint32_t cores = 1;
  uint32_t spin_us = 0;        ///< Keep polling this long after the last packet.
  std::string cpus = {};       ///< As written; empty: any.
  uint32_t cpu_percent = 100;  ///< Share of a CPU that each core may use, 1 … 100.
  uint32_t buffer_mb = 4;      ///< Socket buffers to ask for, per direction and core.
};

/// Declares the flags. @param cores_help Describes --cores.
void add_core_flags(CLI::App& command, CoreFlags& flags, const std::string& cores_help);

/// Returns the CPUs of --cpus; none without it.
[[nodiscard]] Result<std::vector<int>> cpus_of(const CoreFlags& flags);

}  // namespace tributary::cli

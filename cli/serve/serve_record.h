// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flight recorder's flags of `tributary serve`.
///
/// Threads: One, at the start.
/// Errors:  A number of events that is not a power of two is refused.
/// Tests:   tests/system/record_test.cc
#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "server/recording/record_keeper.h"

namespace tributary::cli {

void add_record_flags(CLI::App& command, server::RecordConfig& config);

/// Returns a flag that the user has given; null: none.
[[nodiscard]] const char* given_record_flag(const CLI::App& command);

/// Checks values that depend on others.
[[nodiscard]] Result<void> check_record_flags(const CLI::App& command,
                                              const server::RecordConfig& config, uint32_t cores);

}  // namespace tributary::cli

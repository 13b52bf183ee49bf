// SPDX-License-Identifier: Apache-2.0
/// @file
/// The log's flags of `tributary serve`.
///
/// Threads: One, at the start.
/// Tests:   tests/system/log_test.cc, tests/system/vxlan_test.cc
#pragma once

#include <CLI/CLI.hpp>

#include "server/log/log.h"

namespace tributary::cli {

void add_log_flags(CLI::App& command, server::LogConfig& config);

}  // namespace tributary::cli

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Short commands of the operating system (ip, tc, ethtool), run to their end.
///
/// Threads: One.
/// Errors:  A command that is missing, fails or takes too long, with its command line and its last
///          output.
/// Tests:   tests/bench/race/network_test.cc
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::race {

/// Looks for a program in the system's folders, including those that only an administrator's PATH
/// has.
/// @return the path, or empty.
[[nodiscard]] std::string find_program(const std::string& name);

/// Runs a program with its arguments.
/// @return its standard output.
Result<std::string> run_command(const std::vector<std::string>& words);

}  // namespace tributary::race

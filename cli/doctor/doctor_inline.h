// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of `tributary doctor` that checks the ports of a packet program on live traffic: opens
/// them as `serve --program` does, and closes them at once.
///
/// Threads: One.
/// Errors:  A port that cannot be opened becomes a finding.
/// Tests:   tests/cli/doctor/doctor_inline_test.cc
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/doctor.h"

namespace tributary::cli {

/// Returns one finding for each warning of the ports, or one that tells whether they open. None
/// without ports. @param ports One or two, as given to `serve --program` with --port.
[[nodiscard]] std::vector<Finding> examine_inline(const std::vector<std::string>& ports);
/// Tells whether an interface is one of the ports of --inline.
[[nodiscard]] bool is_inline_port(const std::string& interface,
                                  const std::vector<std::string>& ports);

}  // namespace tributary::cli

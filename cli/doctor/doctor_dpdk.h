// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of `tributary doctor` that checks DPDK devices before they are used.
///
/// Threads: One.
/// Errors:  A text that names no device becomes a finding.
/// Tests:   tests/cli/doctor/doctor_dpdk_test.cc
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/doctor/doctor.h"
#include "io/dpdk/preflight.h"

namespace tributary::cli {

/// Returns one finding for each complaint about the device, or one that reports none.
[[nodiscard]] std::vector<Finding> examine_dpdk_device(const io::DpdkDeviceSpec& spec,
                                                       const io::DpdkDeviceFacts& facts);

/// Returns whether DPDK is available, and the findings of each device, given as for `serve --port`.
/// @param has_dpdk Whether this build contains DPDK.
[[nodiscard]] std::vector<Finding> examine_dpdk(std::span<const std::string> devices,
                                                bool has_dpdk);

}  // namespace tributary::cli

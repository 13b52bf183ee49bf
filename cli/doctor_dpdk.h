// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of `tributary doctor` that looks at DPDK devices before they are used.
///
/// Threads: One.
/// Errors:  A text that names no device is a finding, too.
/// Tests:   tests/cli/doctor_dpdk_test.cc
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/doctor.h"
#include "io/dpdk/preflight.h"

namespace tributary::cli {

/// One finding for each complaint about the device, or one that says that there is none.
[[nodiscard]] std::vector<Finding> examine_dpdk_device(const io::DpdkDeviceSpec& spec,
                                                       const io::DpdkDeviceFacts& facts);

/// Whether DPDK is there, and the findings of each device, as behind `serve --port`.
/// @param has_dpdk Of this build.
[[nodiscard]] std::vector<Finding> examine_dpdk(std::span<const std::string> devices,
                                                bool has_dpdk);

}  // namespace tributary::cli

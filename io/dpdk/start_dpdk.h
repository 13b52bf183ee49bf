// SPDX-License-Identifier: Apache-2.0
/// @file
/// Starts DPDK for the devices of a port: checks them, decides about hugepages, and names the
/// cards.
///
/// Threads: One, at the start.
/// Errors:  One line: the device, the cause, and the command to fix it.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc, tests/io/dpdk/dpdk_side_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/dpdk/port_spec.h"

namespace tributary::io {

/// @return warnings: one sentence each, with the command to fix it.
Result<std::vector<std::string>> start_dpdk(std::span<const DpdkDeviceSpec> devices,
                                            HugepageUse hugepages, uint32_t cores);

}  // namespace tributary::io

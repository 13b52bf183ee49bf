// SPDX-License-Identifier: Apache-2.0
/// @file
/// Two DPDK devices in this process, joined by rings in memory: each receives the frames that the
/// other sends. They serve tests and benchmarks, and need no card, privilege or second process.
///
/// Shapes:  `queues` rings of kRingFrames frames in each direction.
/// Threads: One, at the start; the devices live as long as the process.
/// Errors:  One line.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "io/dpdk/port_spec.h"

namespace tributary::io {

inline constexpr uint32_t kRingFrames = 1024;

/// Creates the pair, and starts DPDK if necessary.
/// @param name Letters and digits; used once per process.
/// @return The devices, for DpdkPort::open(); the caller must set each address.
Result<std::array<DpdkDeviceSpec, 2>> make_ring_pair(const std::string& name, uint32_t queues);

}  // namespace tributary::io

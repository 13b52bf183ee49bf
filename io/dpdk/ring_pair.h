// SPDX-License-Identifier: Apache-2.0
/// @file
/// Two DPDK devices in this process, joined by rings in memory: what one sends the other receives.
/// For tests and benchmarks, which need no card, no privilege and no second process.
///
/// Shapes:  Rings of kRingFrames frames each way, `queues` of them.
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

/// Starts DPDK if need be. @param name Of letters and digits, once in a process.
/// @return The devices, to be opened with DpdkPort::open(); each needs its address.
Result<std::array<DpdkDeviceSpec, 2>> make_ring_pair(const std::string& name, uint32_t queues);

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens DPDK devices as sides of an inline port. This header does not include DPDK, so its users
/// need not know DPDK. A build without DPDK has the same function, which returns an error that says
/// so.
///
/// Threads: One, at the start.
/// Errors:  One line: the device, the cause, and the command to fix it.
/// Tests:   tests/io/dpdk/dpdk_side_test.cc, tests/system/inline_dpdk_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/dpdk/port_spec.h"
#include "io/inline/inline_side.h"
#include "io/inline/steering.h"

namespace tributary::io {

struct DpdkSidesConfig {
  std::vector<DpdkDeviceSpec> devices;  ///< One or two, without addresses.
  uint32_t core_count = 1;
  Steering steering = Steering::kByFlow;  ///< How each card shares its frames among the cores.
};

struct OpenedDpdkSides {
  std::vector<std::vector<std::unique_ptr<InlineSide>>> sides;  ///< Shape [cores][devices].
  std::vector<std::string> warnings;  ///< One sentence each, with the command to fix it.
};

/// Refuses several cores if a device cannot share its frames as config.steering says.
[[nodiscard]] Result<OpenedDpdkSides> open_dpdk_sides(const DpdkSidesConfig& config);

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens a DPDK port. This header does not include DPDK, so its users need not know DPDK. A build
/// without DPDK has the same function, which returns an error that says so.
///
/// Threads: One, at the start.
/// Errors:  One line: the cause, and the command to fix it.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/port.h"
#include "io/dpdk/port_spec.h"

namespace tributary::io {

struct DpdkPortConfig {
  DpdkPortSpec spec;
  uint16_t udp_port = 0;  ///< Our UDP port; not 0.
  uint32_t queue_count = 1;
  std::optional<Endpoint> peer = {};  ///< A worker's aggregator, the only accepted sender.
  bool lax_checksums = false;         ///< See FrameLinkConfig.
};

struct OpenedDpdkPort {
  std::unique_ptr<engine::Port> port;
  std::vector<std::string> warnings;  ///< One sentence each, with the command to fix it.
};

/// Returns true if this build has DPDK.
[[nodiscard]] bool has_dpdk();

[[nodiscard]] Result<OpenedDpdkPort> open_dpdk_port(const DpdkPortConfig& config);

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens a DPDK port, for those who need not know DPDK: this header includes nothing of it, and a
/// build without DPDK has the same function, which says so.
///
/// Threads: One, at the start.
/// Errors:  One line: the cause, and the command that mends it.
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
  uint16_t udp_port = 0;  ///< Ours; not 0.
  uint32_t queue_count = 1;
  std::optional<Endpoint> peer = {};  ///< A worker's aggregator: nobody else is listened to.
};

struct OpenedDpdkPort {
  std::unique_ptr<engine::Port> port;
  std::vector<std::string> warnings;  ///< One sentence each, with the command that mends it.
};

/// Whether this build has DPDK.
[[nodiscard]] bool has_dpdk();

[[nodiscard]] Result<OpenedDpdkPort> open_dpdk_port(const DpdkPortConfig& config);

}  // namespace tributary::io

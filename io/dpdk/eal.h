// SPDX-License-Identifier: Apache-2.0
/// @file
/// Starts DPDK's Environment Abstraction Layer (EAL), once per process.
///
/// Model:   No shared files, telemetry or secondary processes, so the remains of a killed process
///          block nobody. Without hugepages, EAL uses ordinary anonymous memory. PCI cards are
///          named at the start. Virtual devices are added later, one by one, so that each refusal
///          has its own message.
/// Threads: start_eal() from one thread. It restores the thread's CPU affinity, which EAL narrows
///          to one core.
/// Errors:  One line with DPDK's own complaint. start_eal() makes the process ignore SIGPIPE, which
///          a virtio-user device raises when its server ends.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::io {

struct EalConfig {
  bool hugepages = false;
  uint32_t memory_mb = 512;      ///< Address space without hugepages; only used pages take memory.
  std::vector<std::string> pci;  ///< The only cards that EAL may use.
};

/// Starts EAL. Does nothing if it runs already and has these cards. A process cannot start EAL
/// twice, so a refused start stays refused.
Result<void> start_eal(const EalConfig& config);

/// Returns the first error line that DPDK has logged since the last call, without its newline;
/// empty for none.
[[nodiscard]] std::string take_dpdk_complaint();

/// Registers the calling thread with DPDK, which gives the thread its own cache of packet buffers.
/// Cheap if the thread is registered already. The end of the thread undoes it.
void register_dpdk_thread();

}  // namespace tributary::io

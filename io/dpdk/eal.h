// SPDX-License-Identifier: Apache-2.0
/// @file
/// DPDK's Environment Abstraction Layer, started once for the process and in one place.
///
/// Model:   No shared files, no telemetry, no secondary processes: what a killed process leaves
///          behind blocks nobody. Without hugepages memory is ordinary, anonymous memory. PCI cards
///          are named at the start; virtual devices are added later, one by one, so that each
///          refusal has its own message.
/// Threads: start_eal() from one thread. The calling thread keeps its CPU affinity, which EAL would
///          narrow to one core for it and all threads that it starts.
/// Errors:  One line with DPDK's own last words. SIGPIPE is ignored from here on: a virtio-user
///          device raises it when its server goes.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::io {

struct EalConfig {
  bool hugepages = false;
  uint32_t memory_mb = 512;      ///< Address space without hugepages; used pages count.
  std::vector<std::string> pci;  ///< The only cards that are touched.
};

/// Starts it, or does nothing if it runs already and has these cards. It can't be started twice in
/// a process, so a refused start stays refused.
Result<void> start_eal(const EalConfig& config);

/// The last complaint that DPDK has logged, without its newline; empty for none. Forgets it.
[[nodiscard]] std::string take_dpdk_complaint();

/// Makes DPDK know the calling thread, which gives it a cache of packet buffers of its own. Cheap
/// when it is known already; undone when the thread ends.
void register_dpdk_thread();

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/start_dpdk.h"

#include <fmt/format.h>

#include "io/dpdk/eal.h"
#include "io/dpdk/preflight.h"

namespace tributary::io {
namespace {

/// Address space without hugepages, in addition to what this port needs. It is for ports that the
/// process may open later; only used pages take memory.
constexpr uint32_t kMemoryMbBase = 512;

std::string line_of(const std::string& what, const DpdkComplaint& complaint) {
  return fmt::format("{}: {}; to fix: {}", what, complaint.cause, complaint.remedy);
}

}  // namespace

Result<std::vector<std::string>> start_dpdk(std::span<const DpdkDeviceSpec> devices,
                                            HugepageUse hugepages, uint32_t cores) {
  // Finds a card that the kernel holds before DPDK starts with it.
  for (const DpdkDeviceSpec& device : devices) {
    for (const DpdkComplaint& complaint : check_dpdk_device(device, gather_dpdk_facts(device))) {
      if (complaint.is_fatal) return failure(line_of(device.name, complaint));
    }
  }
  const uint64_t bytes = dpdk_memory_bytes(devices, cores);
  const HugepageDecision pages =
      decide_dpdk_hugepages(devices, hugepages, gather_dpdk_facts(devices.front()), bytes);
  std::vector<std::string> warnings;
  if (pages.complaint) {
    const std::string line = line_of("DPDK", *pages.complaint);
    if (pages.complaint->is_fatal) return failure(line);
    warnings.push_back(line);
  }
  EalConfig eal;
  eal.hugepages = pages.use;
  eal.memory_mb = kMemoryMbBase + static_cast<uint32_t>(bytes >> 20);
  for (const DpdkDeviceSpec& device : devices) {
    if (device.is_pci()) eal.pci.push_back(device.name);
  }
  if (const auto started = start_eal(eal); !started) return tl::unexpected(started.error());
  return warnings;
}

}  // namespace tributary::io

// SPDX-License-Identifier: Apache-2.0
#include "plan/local_reduce.h"

#include <algorithm>
#include <map>

namespace tributary::plan {

double pcie_seconds(const PcieMachine& machine, double brute_force) {
  const double n = machine.gpus_per_switch;
  const double x = brute_force;
  const double y = 1 - x;
  const double switch_bytes = n * x + y;             // Equation 8.
  const double gpu_bytes = (2 * n - 1) / n * y + x;  // Equation 9.
  return std::max(switch_bytes / machine.switch_link, gpu_bytes / machine.gpu_link);
}

double best_brute_force(const PcieMachine& machine) {
  const double n = machine.gpus_per_switch;
  if (n == 1) return 0;
  // The time of the switch's link grows with x, that of the GPU's falls: the best x has both equal.
  // (1 + (n - 1) x) / s = ((2n - 1) / n - (n - 1) / n x) / g
  const double s = machine.switch_link;
  const double g = machine.gpu_link;
  const double x = ((2 * n - 1) / n / g - 1 / s) / ((n - 1) / s + (n - 1) / n / g);
  return std::clamp(x, 0.0, 1.0);
}

double local_ring_seconds(const PcieMachine& machine) {
  const double gpus = 1.0 * machine.switches * machine.gpus_per_switch;
  double slowest = std::min(machine.gpu_link, machine.switch_link);
  if (machine.switches > 1) slowest = std::min(slowest, machine.across_switches);
  return 2 * (gpus - 1) / gpus / slowest;
}

double nvlink_seconds(const NvlinkMachine& machine, std::span<const uint32_t> roots,
                      double nic_tensors) {
  std::map<uint32_t, double> tensors{{0, nic_tensors}};  // By switch, on its link to the CPU.
  for (const uint32_t root : roots) {
    tensors[root / machine.gpus_per_switch] += 1.0 / static_cast<double>(roots.size());
  }
  double seconds = nic_tensors / machine.nic;
  for (const auto& [number, count] : tensors) {
    seconds = std::max(seconds, count / machine.switch_link);
  }
  return seconds;
}

}  // namespace tributary::plan

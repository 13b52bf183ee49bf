// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/byteps.h"

#include <algorithm>

#include "plan/byteps_equations.h"
#include "plan/local_reduce.h"

namespace tributary::lab {
namespace {

/// Between GPUs below different switches. Source: §4.2.1, "only 80Gbps".
constexpr double kAcrossBytesPerS = 10e9;
constexpr plan::NvlinkMachine kNvlink{.switch_link = kBytepsPcieBytesPerS,
                                      .nic = kBytepsBitsPerS / 8.0};
constexpr plan::PcieMachine kPcie{.gpu_link = kBytepsPcieBytesPerS,
                                  .switch_link = kBytepsPcieBytesPerS,
                                  .across_switches = kAcrossBytesPerS};

uint64_t bits_per_s(double seconds_per_byte) { return static_cast<uint64_t>(8 / seconds_per_byte); }

void limit_nic(Scenario& scenario, uint64_t rate) {
  rate = std::min(rate, scenario.link.rate_bits_per_s);
  scenario.link.rate_bits_per_s = rate;
  scenario.host.nic_bits_per_s = rate;
}

/// Returns the tensors that a machine's NIC carries each way.
double nic_tensors(const Scenario& scenario) {
  return plan::byteps_optimum(scenario.workers, scenario.aggregators.spare);
}

/// Limits the network to the time that the machine takes for each byte of a tensor.
void limit_by_machine(Scenario& scenario, double seconds_per_byte) {
  limit_nic(scenario, bits_per_s(seconds_per_byte / nic_tensors(scenario)));
}

}  // namespace

Scenario byteps_scenario(Backend backend, uint32_t workers, uint32_t spares) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = workers;
  scenario.aggregators.spare = spares;
  scenario.window = kBytepsWindow;
  scenario.link.rate_bits_per_s = kBytepsBitsPerS;
  scenario.host.nic_bits_per_s = kBytepsBitsPerS;
  return scenario;
}

void use_roots(Scenario& scenario, std::span<const uint32_t> roots) {
  limit_by_machine(scenario, plan::nvlink_seconds(kNvlink, roots, nic_tensors(scenario)));
}

void use_nccl(Scenario& scenario) { limit_nic(scenario, bits_per_s(2 / kBytepsPcieBytesPerS)); }

void use_pcie(Scenario& scenario) { limit_by_machine(scenario, plan::pcie_seconds(kPcie)); }

void use_pcie_all_gpus(Scenario& scenario) {
  const double copy = 1 / (kBytepsGpusEach * kBytepsPcieBytesPerS);
  limit_by_machine(scenario, plan::local_ring_seconds(kPcie) + copy);
}

void use_pcie_nccl(Scenario& scenario) { limit_nic(scenario, bits_per_s(1 / kAcrossBytesPerS)); }

double iterations_per_s(const PointOutcome& outcome) {
  return value_of(outcome, [](const RunResult& run) { return 1 / in_seconds(run.mean_iteration); });
}

}  // namespace tributary::lab

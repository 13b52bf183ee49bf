// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/byteps.h"

#include <algorithm>

#include "plan/byteps_equations.h"
#include "plan/local_reduce.h"

namespace tributary::lab {
namespace {

/// Between a PCIe switch and the CPU. Source: §4.2.1, measured on the other kind of machine; assumed
/// alike here, where "approximately the same 100Gbps bandwidth as the NIC" is stated (§4.2.2).
constexpr double kPcieBytesPerS = 13.1e9;
constexpr plan::NvlinkMachine kMachine{.switch_link = kPcieBytesPerS, .nic = kBytepsBitsPerS / 8.0};

uint64_t bits_per_s(double seconds_per_byte) { return static_cast<uint64_t>(8 / seconds_per_byte); }

void limit_nic(Scenario& scenario, uint64_t rate) {
  rate = std::min(rate, scenario.link.rate_bits_per_s);
  scenario.link.rate_bits_per_s = rate;
  scenario.host.nic_bits_per_s = rate;
}

// UGATIT's two generators have a fully connected layer from 256 channels of 64 x 64 pixels to 256
// values each (Kim et al. 2020): 1 GiB of gradients. Its other layers' 0.5 GiB are assumed. In the
// backward pass, these layers come after the decoder, which is assumed to take 4/7 of the time.
constexpr uint64_t kConnectedBytes = uint64_t{2} << 30;
constexpr uint64_t kOtherBytes = uint64_t{1} << 29;
constexpr size_t kBuckets = 7;
constexpr size_t kConnectedBucket = 3;
/// Computation of an iteration with 2 images on a V100. Calibrated: with it, 8 spare machines speed
/// training up by the paper's 20 % (§7.2). Everything else is predicted.
constexpr Duration kUgatitComputation = milliseconds(772);

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
  const double nic_tensors = plan::byteps_optimum(scenario.workers, 0);
  limit_nic(scenario, bits_per_s(plan::nvlink_seconds(kMachine, roots, nic_tensors) / nic_tensors));
}

void use_nccl(Scenario& scenario) { limit_nic(scenario, bits_per_s(2 / kPcieBytesPerS)); }

void train_ugatit(Scenario& scenario) {
  scenario.model.kind = Model::kCustom;
  scenario.model.bucket_bytes.assign(kBuckets, kOtherBytes / (kBuckets - 1));
  scenario.model.bucket_bytes[kConnectedBucket] = kConnectedBytes;
  scenario.model.forward = kUgatitComputation / 3;  // As in lab/workload/ddp_workload.h.
  scenario.model.backward = kUgatitComputation - scenario.model.forward;
}

double iterations_per_s(const PointOutcome& outcome) {
  return 1 / in_seconds(outcome.result.mean_iteration);
}

}  // namespace tributary::lab

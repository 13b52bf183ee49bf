// SPDX-License-Identifier: Apache-2.0
/// @file
/// The network and the end-to-end model of the BytePS paper's evaluation, which its figures share.
///
/// Model:   One network participant for each machine with 8 GPUs. Inside, PCIe links may be slower
///          than the network (plan/local_reduce.h); NVLink never is.
/// Units:   Rates in bit/s.
/// Threads: Pure functions.
/// Tests:   tests/lab/figures/byteps_figures_test.cc
#pragma once

#include <cstdint>
#include <span>

#include "lab/figures/figure.h"
#include "lab/scenario.h"

namespace tributary::lab {

/// The rate of every machine's link, in each direction. Source: BytePS paper §7.1, Figure 12: a
/// point-to-point transfer has a goodput of about 90 Gbit/s over 100GbE, and B of equation 6 is
/// that. Here the links carry no more than that with all headers.
inline constexpr uint64_t kBytepsBitsPerS = 90'000'000'000;

/// Machines with GPUs. Source: BytePS paper §7.1 and §7.2.
inline constexpr uint32_t kBytepsMachines = 8;
/// Source: §7.2.
inline constexpr uint32_t kBytepsGpusEach = 8;

/// Between a PCIe switch and the CPU or a GPU. Source: §4.2.1, measured on the machines without
/// NVLink; assumed alike with it, where "approximately the same 100Gbps bandwidth as the NIC" is
/// stated (§4.2.2).
inline constexpr double kBytepsPcieBytesPerS = 13.1e9;

/// A worker's packets in flight, of 1024 gradients. Assumed: 4 MB, one of the parts into which the
/// paper cuts tensors (§4.1). The windows of eight workers fit into a switch's queue to one
/// machine.
inline constexpr uint32_t kBytepsWindow = 1024;

/// Returns a scenario with the paper's network and no computation, for the caller to complete.
[[nodiscard]] Scenario byteps_scenario(Backend backend, uint32_t workers, uint32_t spares);

// --- Inside a machine ----------------------------------------------------------------------------
// Each of these limits the rate of every machine's link so that the network takes as long as the
// slowest link inside, if that is longer. Parts of a tensor pass both at the same time.

/// NVLink (Figure 8), without spare machines. Limits the link to the rate that the NIC reaches with
/// these reduce roots (Figure 14(b)). The paper's best root leaves the NIC at full rate.
void use_roots(Scenario& scenario, std::span<const uint32_t> roots);

/// NVLink, a ring on NCCL's path: every byte crosses the link from memory to the NIC's PCIe switch
/// twice each way, once of the GPUs and once of the NIC (§4.2.2).
void use_nccl(Scenario& scenario);

/// PCIe only (Figure 6): GPUs below a switch reduce first, then the CPU (CPU-assisted aggregation).
void use_pcie(Scenario& scenario);

/// PCIe only, the strategy of "common all-reduce or PS" (§7.3): all GPUs of the machine reduce
/// among each other, then each copies its part to the CPU.
void use_pcie_all_gpus(Scenario& scenario);

/// PCIe only, a ring over all GPUs: its slowest copy is that across switches.
void use_pcie_nccl(Scenario& scenario);

/// Returns the iterations a second of a point.
[[nodiscard]] double iterations_per_s(const PointOutcome& outcome);

}  // namespace tributary::lab

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The time in which the GPUs of one machine exchange a tensor with its memory, for the strategies
/// and machines of the BytePS paper.
///
/// Model:   Full-duplex PCIe links; CPU memory, QPI and NVLink are never the bottleneck (§4.2). The
///          two directions carry the same bytes at the same time, so one is counted.
/// Units:   Seconds for each byte of the tensor; links in bytes per second.
/// Threads: Pure functions.
/// Errors:  None; every number is above 0.
/// Source:  BytePS paper (OSDI '20) §4.2, equations 8 and 9.
/// Tests:   tests/plan/local_reduce_test.cc
#pragma once

#include <cstdint>
#include <span>

namespace tributary::plan {

/// A machine whose GPUs hang below PCIe switches, with the NIC on lanes of its own (Figure 6).
struct PcieMachine {
  uint32_t switches = 2;
  uint32_t gpus_per_switch = 4;
  double gpu_link = 0;         ///< Bytes per second between a GPU and its switch.
  double switch_link = 0;      ///< Bytes per second between a switch and the CPU.
  double across_switches = 0;  ///< Bytes per second between GPUs below different switches.
};

/// Returns the time if each GPU copies the part `brute_force` of its tensor to the CPU unreduced,
/// and GPUs below the same switch reduce the rest first (equations 8 and 9). 0 is the paper's
/// CPU-assisted aggregation.
/// @param brute_force From 0 to 1.
[[nodiscard]] double pcie_seconds(const PcieMachine& machine, double brute_force = 0);

/// Returns the part of brute-force copies with the least time.
[[nodiscard]] double best_brute_force(const PcieMachine& machine);

/// Returns the time of a ring all-reduce over all GPUs of the machine, the slowest copy's.
[[nodiscard]] double local_ring_seconds(const PcieMachine& machine);

/// A machine with NVLink between its GPUs, and the NIC below PCIe switch 0 (Figure 8).
struct NvlinkMachine {
  uint32_t gpus_per_switch = 2;
  double switch_link = 0;  ///< Between a switch and the CPU.
  double nic = 0;
};

/// Returns the time if the GPUs named by `roots` reduce equal parts of the tensor and copy them to
/// the CPU, while the NIC carries `nic_tensors` tensors each way.
/// @param roots GPUs by number, at least one.
[[nodiscard]] double nvlink_seconds(const NvlinkMachine& machine, std::span<const uint32_t> roots,
                                    double nic_tensors);

}  // namespace tributary::plan

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Generated traffic as a faulty wire delivers it.
///
/// Units:   Nanoseconds since the first packet was generated; bytes.
/// Exact:   Equal plans give equal packets.
/// Threads: One.
/// Memory:  All packets of a plan.
/// Tests:   tests/lab/program_faults/faulty_wire_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "lab/program_faults/program_faults.h"

namespace tributary::lab {

struct WirePacket {
  int64_t at_ns = 0;
  std::vector<std::byte> bytes;
  uint32_t wire_bytes = 0;  ///< More than bytes.size() if the capture cut the frame.
};

struct FaultyTraffic {
  std::vector<WirePacket> packets;
  std::array<uint64_t, kWireFaultCount> faults{};  ///< Applied faults, by kind.
};

/// Refuses a plan whose traffic is out of range.
[[nodiscard]] Result<FaultyTraffic> faulty_traffic(const ProgramFaultPlan& plan);

}  // namespace tributary::lab

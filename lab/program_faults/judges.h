// SPDX-License-Identifier: Apache-2.0
/// @file
/// The judges of a packet program's run under faults.
///
/// Model:   The truth about flows is counted from the packets themselves, with apps/flow_key.h and
///          a map.
/// Threads: Pure functions.
/// Errors:  Broken promises are appended, one line each.
/// Tests:   tests/lab/program_faults/judges_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/program_faults/faulty_wire.h"
#include "programs/program.h"

namespace tributary::lab {

/// The run of a program on one machine, and the files that it wrote.
struct MachineRun {
  programs::RunEnd end;
  std::string forwarded;  ///< A capture.
  std::string records;    ///< JSON lines.
};

/// Writes the packets as a capture.
[[nodiscard]] Result<void> write_capture(std::span<const WirePacket> packets,
                                         const std::string& path);

/// Returns the packets of flows for which the store had no room.
[[nodiscard]] uint64_t refused_packets(const MachineRun& run);

/// Requires that each packet has exactly one outcome and was forwarded or dropped.
void judge_outcomes(const MachineRun& run, uint64_t packets, std::vector<std::string>& breaches);

/// Requires that the records hold each accounted packet once, and no flow more than it sent.
/// Unless packets were refused, the records hold all packets of each flow.
void judge_records(const MachineRun& run, std::span<const WirePacket> packets,
                   std::vector<std::string>& breaches);

}  // namespace tributary::lab
